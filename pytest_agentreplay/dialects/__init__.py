"""Reading the bytes of providers: which fields are messages, tools, parameters, usage; how a stream reads as text."""
