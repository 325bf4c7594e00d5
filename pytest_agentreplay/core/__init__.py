"""What a run is, and when two runs differ. Pure: no file, clock, thread, environment, pytest or HTTP library.

    model  reading  turns  divergence      the nouns
    gate  recorder  replayer  adopter      the three gates, and the question that a boundary asks
    precedence                             which calls bind the order of which
    canon  selector  rules                 one normal form, one path language, what is not compared
    matching/                              is this call that call
    freeze/  failure                       values and exceptions as JSON, and back
    redaction/                             what may be stored: secrets, headers, places
    diff/  align/  explain/                where two runs part, and why they likely do

Times, ids and random numbers come in as arguments.
"""
