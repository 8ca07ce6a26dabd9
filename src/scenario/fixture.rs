//! What tests of several modules need.

use super::{Dataset, ScenarioFile};

/// A data set of 100 samples of 10 B, a file each.
pub(crate) fn dataset() -> Dataset {
    let toml = r#"
        name = "x"
        [run]
        steps = 1
        [cluster]
        nodes = 1
        node.cores = 1
        [storage.m.memory]
        [dataset.d]
        samples = 100
        sample_size = "10 B"
        [[job]]
        name = "j"
        dataset = "d"
        storage = "m"
        batch = 1
        loader.tf-queue = { threads = 1, capacity = "1 samples" }
        model.step = "1 ms"
    "#;
    let file = ScenarioFile::parse("x.toml", toml.to_owned()).unwrap();
    file.resolve(&[]).unwrap().datasets.remove(0)
}
