//! Finds the file and line, or the override, that sets a key of a workload, for error messages.

use crate::import::label;

/// Place where a key gets its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Index of a file, and number of the line in this file, from 1.
    File(usize, usize),
    /// Index of an override.
    Override(usize),
}

/// Returns the place that sets the effective value of `key`. If it is not set, returns the place of the innermost enclosing key.
#[must_use]
pub fn said(texts: &[String], overrides: &[String], key: &str) -> Option<Said> {
    // Older files name the section of the reader so.
    let older = key.strip_prefix("reader.").map(|rest| format!("data_reader.{rest}"));
    let exact = |key: &str| place_of(texts, overrides, key, false);
    older.and_then(|key| exact(&key)).or_else(|| place_of(texts, overrides, key, true))
}

fn place_of(texts: &[String], overrides: &[String], key: &str, enclosing: bool) -> Option<Said> {
    let mut key = key;
    loop {
        let named = |text: &str| {
            let path = text.split_once('=').map_or(text, |(path, _)| path).trim_start_matches('+');
            path.strip_prefix("workload.").unwrap_or(path) == key
        };
        // The last override wins.
        if let Some(at) = overrides.iter().rposition(|text| named(text)) {
            return Some(Said::Override(at));
        }
        let found = texts.iter().enumerate().rev();
        let mut found = found.filter_map(|(file, text)| Some((file, line_of(text, key)?)));
        if let Some((file, line)) = found.next() {
            return Some(Said::File(file, line));
        }
        key = key.rsplit_once('.').filter(|_| enclosing)?.0;
    }
}

/// Returns the line of a key in block-style YAML, from 1. Nested keys are indented more.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut around: Vec<(usize, &str)> = Vec::new();
    for (number, line) in (1..).zip(label::unlabelled(text).lines()) {
        let content = line.trim_start_matches(' ');
        let Some((name, _)) = content.split_once(':').filter(|_| !content.starts_with('#')) else {
            continue;
        };
        let indent = line.len() - content.len();
        around.retain(|(outer, _)| *outer < indent);
        around.push((indent, name.trim().trim_matches(['"', '\''])));
        let names: Vec<&str> = around.iter().map(|(_, name)| *name).collect();
        let path = names.join(".");
        if path.strip_prefix("workload.").unwrap_or(&path) == key {
            return Some(number);
        }
    }
    None
}

/// Sources of the scenario's keys: keys of the workload, or options of the command line.
const SOURCES: [(&str, &str); 24] = [
    ("name", "model.name"),
    ("run.steps", "train.total_training_steps"),
    ("run.epochs", "train.epochs"),
    ("run.warm_up", "metric.exclude_start_steps"),
    ("run.seed", "train.seed"),
    ("cluster.nodes", "--hosts"),
    ("cluster.node.gpus", "--accelerators"),
    ("storage.data", "--bandwidth"),
    ("dataset.train.samples", "dataset.num_files_train"),
    ("dataset.train.sample_size", "dataset.record_length_bytes"),
    ("dataset.train.layout.shards.request", "reader.transfer_size"),
    ("dataset.train.layout", "dataset.num_samples_per_file"),
    ("job.nodes", "--hosts"),
    ("job.batch", "reader.batch_size"),
    ("job.parallel", "--accelerators"),
    ("job.loader.pytorch.workers", "reader.read_threads"),
    ("job.loader.pytorch.prefetch_factor", "reader.prefetch_size"),
    ("job.loader.tf-data.parallel_reads", "reader.read_threads"),
    ("job.loader.tf-data.parallel_calls", "reader.computation_threads"),
    ("job.loader.tf-data.prefetch", "reader.prefetch_size"),
    ("job.loader", "reader.preprocess_time"),
    ("job.checkpoint.steps", "checkpoint.num_checkpoints_write"),
    ("job.checkpoint", "model"),
    ("job.model", "train.computation_time"),
];

/// Returns the source of a key of the scenario (`scenario`): a key of the workload, or an option of the command line. Returns
/// `None` if the key has no source.
#[must_use]
pub fn source(scenario: &str) -> Option<&'static str> {
    // The job's name is part of the key.
    let unnamed = scenario.strip_prefix("job.").and_then(|rest| rest.split_once('.'));
    let unnamed = unnamed.map(|(_, rest)| format!("job.{rest}"));
    let within = |key: &str, outer: &str| {
        key.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let find =
        |of: &str| SOURCES.iter().find(|(key, _)| within(of, key)).map(|(_, source)| *source);
    unnamed.as_deref().and_then(find).or_else(|| find(scenario))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_file_or_override_that_sets_a_dlio_key_is_located() {
        let texts = [
            "reader:\n  # a: 1\n  batch_size: 4\n  \"read_threads\": 2\ntrain:\n  epochs: 1\n",
            "workload:\n  reader:\n    batch_size: 8\n",
        ];
        let texts = texts.map(str::to_owned);
        let said = |overrides: &[&str], key| {
            let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
            said(&texts, &overrides, key)
        };
        assert_eq!(said(&[], "reader.batch_size"), Some(Said::File(1, 3)));
        assert_eq!(said(&[], "reader.read_threads"), Some(Said::File(0, 4)));
        assert_eq!(said(&[], "train.epochs.of.what"), Some(Said::File(0, 6)));
        assert_eq!(said(&[], "metric.au"), None);
        let old = ["data_reader:\n  batch_size: 4\n".to_owned()];
        assert_eq!(super::said(&old, &[], "reader.batch_size"), Some(Said::File(0, 2)));
        let labelled =
            ["Nov 27 10:00:00 node1 x[12]: train:\nNov 27 10:00:01 node1 x[12]:   epochs: 3\n"];
        let labelled = labelled.map(str::to_owned);
        assert_eq!(super::said(&labelled, &[], "train.epochs"), Some(Said::File(0, 2)));
        assert_eq!(crate::import::dlio::read(&labelled, &[]).expect("a workload").epochs, 3);
        let over = ["++workload.train.epochs=2", "++workload.reader.batch_size=3"];
        assert_eq!(said(&over, "reader.batch_size"), Some(Said::Override(1)));
    }

    #[test]
    fn scenario_keys_are_traced_to_keys_of_the_dlio_workload() {
        assert_eq!(source("job.unet3d.loader.pytorch.workers"), Some("reader.read_threads"));
        assert_eq!(source("job.loader.pytorch.workers"), Some("reader.read_threads"));
        assert_eq!(source("job.loader.pytorch.delay"), Some("reader.preprocess_time"));
        assert_eq!(source("job.batches"), None);
    }
}
