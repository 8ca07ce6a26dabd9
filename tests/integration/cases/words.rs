//! Cases about words of scenario files.

use forebay::scenario::ScenarioFile;

use super::super::runs::repository;

#[test]
fn values_beside_words_that_take_none_are_refused() {
    // System: an interval beside a kind of arrivals, and a value beside a kind of writers. Expectation: an error each, with its
    // line and what to write.
    let path = repository("tests/data/cases/turn3/arrivals.toml");
    let text =
        std::fs::read_to_string(path).expect("a case").replace("\"each\"", "{ each = \"x\" }");
    let found = ScenarioFile::parse("arrivals.toml", text).and_then(|file| file.resolve(&[]));
    let found = found.expect_err("refused").to_string();
    for said in [
        "`poisson` takes no settings",
        "write `arrivals = \"poisson\"`",
        "`each` takes no settings",
        "write `writers = \"each\"`",
    ] {
        assert!(found.contains(said), "{said}: {found}");
    }
}
