"""The files of cases: scaffolding, importing a trace, freezing the last failure, bundling, exporting, linting."""
