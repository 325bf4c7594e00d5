"""What the pages show is what happens: every block is run, checked, or left out with a reason that is read in the page."""

import pytest

from tests.support.pages import ROOT, pages_of

pytestmark = pytest.mark.process


@pytest.mark.parametrize("page", pages_of("main"), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_page_holds(page, play):
    play(page).play()
