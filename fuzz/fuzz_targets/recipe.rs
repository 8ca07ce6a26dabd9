//! Any bytes are read as a recipe and a table of rows, behind a line of `---`, and drawn or refused in words.
#![no_main]

use forebay::plot::{Recipe, Table, build, svg};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (recipe, rows) = text.split_once("\n---\n").unwrap_or((&text, "x,y\n1,2\n3,4\n"));
    match (Recipe::parse("fuzz.toml", recipe), Table::read(rows.as_bytes())) {
        (Ok(recipe), Ok(table)) => {
            if let Err(error) = build(&recipe, &table).and_then(|figure| svg(&figure)) {
                assert!(!error.to_string().is_empty());
            }
        }
        (Err(error), _) | (_, Err(error)) => assert!(!error.to_string().is_empty()),
    }
});
