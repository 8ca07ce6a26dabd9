//! Tests: no text makes the reader panic.

use super::*;
use proptest::prelude::*;

fn read(text: String, changes: &[Override]) {
    match ScenarioFile::parse("any.toml", text) {
        Ok(file) => {
            for result in [file.resolve(changes).map(|_| ()), file.axes().map(|_| ())] {
                if let Err(problems) = result {
                    assert!(!problems.render(true).is_empty());
                }
            }
        }
        Err(problems) => assert!(!problems.to_string().is_empty()),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused_as_a_scenario_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read(String::from_utf8_lossy(&bytes).into_owned(), &[]);
    }

    #[test]
    fn the_example_scenario_with_any_text_replaced_causes_no_panic(
        start in 0..FLETCHER.len(),
        length in 0..60_usize,
        piece in "([a-z_.=\"'{}\\[\\]0-9 \n-]|nan|inf|[[job]]\n|µ|\u{1F600}){0,12}",
    ) {
        let border = |at: usize| (at..=FLETCHER.len()).find(|&at| FLETCHER.is_char_boundary(at));
        let start = border(start).expect("the end is a border");
        let end = border((start + length).min(FLETCHER.len())).expect("the end is a border");
        read(format!("{}{piece}{}", &FLETCHER[..start], &FLETCHER[end..]), &[]);
    }

    #[test]
    fn any_override_is_applied_or_refused_without_panic(key in "(job|run|cluster|lenet|batch|storage|[a-z0-9\"]|\\.){1,6}", value in "\\PC{0,20}") {
        if let Ok(change) = format!("{key}={value}").parse::<Override>() {
            read(FLETCHER.to_owned(), &[change]);
        }
    }
}
