"""The words of the vocabulary (see `judging`): what each of them wants of a run, and how it is looked for."""
