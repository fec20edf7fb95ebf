"""Ranking profiles: read whole or refused with a sentence, versioned by what they say."""

import pytest

from feed.errors import Misconfigured
from feed.profile import Profile, lint, read_profiles


def test_what_a_profile_leaves_out_is_the_default() -> None:
    profiles = read_profiles("[default]\n[calm.author]\nrun = 1\n")
    assert profiles["default"] == Profile()
    assert profiles["calm"].author.run == 1
    assert profiles["calm"].weights == Profile().weights


def test_the_version_follows_from_what_is_said() -> None:
    """Written differently but saying the same, it is the same; each value changes it."""
    one = read_profiles("[a.seen]\nfactor = 0.5\n[a.affinity_decay]\nlikes = 1\n")["a"]
    two = read_profiles("# a comment\n[a]\n")["a"]
    assert one.version == two.version
    assert one.version.startswith("a-")
    assert read_profiles("[a.seen]\nfactor = 0.6\n")["a"].version != one.version


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[default", "not TOML"),
        ("", "no profile"),
        ("default = 1", "default is no profile"),
        ("[default.authors]\nrun = 1", "known are light, affinity_decay"),
        ("[default]\nauthor = 3", "must be a table"),
        ("[default.author]\nruns = 1", "known are run, decay"),
        ("[default.author]\nrun = 0", "between 1 and 1000, it is 0"),
        ("[default.author]\nrun = 1.5", "a whole number, it is 1.5"),
        ("[default.author]\nrun = true", "a whole number, it is True"),
        ("[default.affinity_decay]\ngravity = nan", "between 0 and 10, it is nan"),
        ("[default.affinity_decay]\nlikes = inf", "between 0 and 100, it is inf"),
        ('[default.light]\nformula = "magic"', "must be one of affinity_decay"),
        ('[default.out_of_network]\nenabled = "no"', "true or false"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(Misconfigured, match=sentence):
        read_profiles(text)


def test_the_linter_finds_nothing_in_the_defaults() -> None:
    assert lint(Profile()) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("[a.affinity_decay]\nlikes = 0", "likes move nothing"),
        ("[a.affinity_decay]\ncomments = 0", "comments move nothing"),
        ("[a.affinity_decay]\ngravity = 0", "never get old"),
        ("[a.affinity_decay]\ngravity = 9", "nothing counts but age"),
        ("[a.affinity_decay]\nlikes = 9", "cheaper than a comment"),
        ("[a.author]\ndecay = 1", "count in full"),
        ("[a.author]\nfloor = 1", "decay moves nothing"),
        ("[a.seen]\nfactor = 1", "stays where it is"),
        ("[a.out_of_network]\nshare = 0", "say enabled = false"),
        ("[a.out_of_network]\nshare = 1", "bounds nothing"),
        ("[a.out_of_network]\nrun = 5", "can never be reached"),
        ("[a.new_author]\ndays = 0", "stays empty"),
        ("[a.new_author]\nslot = 500", "nobody is lifted"),
        ("[a.author]\nrun = 500", "author.run is not below"),
        ("[a.format]\nrun = 500", "format.run is not below"),
        ("[a.author]\ndecay = 0\nfloor = 0", "counts nothing"),
        ("[a.out_of_network]\nshare = 0.9\nrun = 1", "with so small a run"),
        ("[a.out_of_network]\nfew_follows = 100000", "hardly anybody"),
        ("[a.engagement_decay]\nlikes = 1", "engagement_decay is not the formula"),
        (
            '[a.light]\nformula = "engagement_decay"\n[a.affinity_decay]\nlikes = 2',
            "affinity_decay is not",
        ),
        ('[a.light]\nformula = "engagement_decay"\n[a.engagement_decay]\ncomments = 47', "a day"),
        ("[a.affinity_decay]\ngravity = 0.3", "outweighs a day"),
        ("[a.affinity_decay]\nage_offset_h = 0.01", "over 100 times one of an hour"),
        ("[a.out_of_network]\nenabled = false\nfactor = 0.9", "is not enabled"),
    ],
)
def test_the_linter_names_what_is_hardly_meant(text: str, finding: str) -> None:
    assert any(finding in sentence for sentence in lint(read_profiles(text)["a"]))
