"""Traces of other tools, in and out. `trace` has the nouns, `opening` the files, `formats` who reads which.

    spans       span trees: OpenTelemetry, OpenInference, OpenLLMetry, Phoenix, App Insights
    platforms   what platforms export: LangSmith, Langfuse, MLflow, Braintrust, Opik, Weave, Galileo, Agents SDK
    logs        requests and replies, sessions, results: vcrpy, HAR, provider logs, Inspect, Claude Code

An importer reads bytes that a stranger may have written: it opens nothing, imports nothing, and gives `Trace` values
or a `TraceError`. Nobody but an importer knows the names that another tool gives to things.
"""
