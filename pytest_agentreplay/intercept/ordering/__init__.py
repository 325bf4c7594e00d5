"""The order of answers: recorded answers are released when the program is quiet, one at a time."""
