"""The categories of personal data, apart from the rules that find it: most projects do not look for any."""

PERSONAL = frozenset(("email", "phone", "credit-card", "iban", "ssn", "national-id", "ip"))
"""The categories of what tells a person."""
