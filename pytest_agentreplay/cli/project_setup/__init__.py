"""What `agentreplay init` reads of a project and would write into it: tools, configuration, git files."""
