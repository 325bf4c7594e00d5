import pytest

from tests.support.browser import Browser


@pytest.fixture(scope="session")
def one_browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def browser(one_browser):
    """A browser that has seen nothing yet."""
    for log in (one_browser.requests, one_browser.dialogs, one_browser.errors):
        log.clear()
    # What a page keeps, such as its theme, lies in its origin: that of all files.
    one_browser.call("Storage.clearDataForOrigin", origin="file://", storageTypes="local_storage")
    one_browser.resize(1280)
    return one_browser
