"""The files of a project as they were: to be compared, and put back for the next test that changes them."""


def contents(folder):
    """Return every file below a folder by its path from there, with its bytes."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()
    }


def put_back(folder, kept):
    """Make the files below a folder those that `contents` has given once."""
    for found in sorted(folder.rglob("*"), reverse=True):
        if found.is_symlink() or (found.is_file() and found.relative_to(folder).as_posix() not in kept):
            found.unlink()
        elif found.is_dir() and not any(found.iterdir()):
            found.rmdir()
    for name, data in kept.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_bytes() != data:
            file.write_bytes(data)
