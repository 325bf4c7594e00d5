"""Tables of names that fit on a few lines."""


def words(text):
    """The words of a text, as a set."""
    return {*text.split()}
