//! Names of loaders, storages, models and data sets that `forebay new` accepts.

use super::{TemplateError, workload};
use crate::scenario::choose;

/// An option among which a user chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Main name.
    pub name: &'static str,
    /// Other names that mean the same.
    pub also: &'static [&'static str],
    /// Description of the option, in a few words.
    pub about: &'static str,
}

const fn choice(name: &'static str, also: &'static [&'static str], about: &'static str) -> Choice {
    Choice { name, also, about }
}

/// Loaders; each is a preset of scenarios.
pub const LOADERS: [Choice; 6] = [
    choice(
        "pytorch",
        &["torch", "dataloader"],
        "PyTorch's DataLoader: worker processes that make batches",
    ),
    choice(
        "tf-data",
        &["tensorflow", "tfdata"],
        "TensorFlow's tf.data: parallel reads and calls, a prefetch",
    ),
    choice("dali", &["nvidia-dali"], "NVIDIA's DALI: threads on the host"),
    choice("keras", &[], "Keras' Sequence: a pool of workers"),
    choice("tf-queue", &["queue"], "TensorFlow 1's queue: enqueue threads"),
    choice("in-memory", &["synthetic", "none"], "synthetic data: batches that are there"),
];

/// Storages. Every kind of storage in scenarios is among their main and other names.
pub const STORAGES: [Choice; 8] = [
    choice("nfs", &["file-server"], "one file server that all nodes share"),
    choice("nvme", &["local-disk", "ssd"], "a solid-state disk in each node"),
    choice("hdd", &["hard-disk"], "a hard disk in each node"),
    choice("lustre", &["parallel-fs", "beegfs", "gpfs"], "a parallel file system"),
    choice(
        "nvme-of",
        &["nvmeof", "nvme-tcp", "nvme-rdma"],
        "NVMe over fabrics: a target that nodes share",
    ),
    choice("s3", &["object-store", "blob", "gcs"], "an object store"),
    choice("memory", &["ram"], "data that is in the nodes' memory"),
    choice("measured", &[], "throughput as measured, by size and number of requests"),
];

/// Data sets.
pub const DATASETS: [Choice; 8] = [
    choice("imagenet", &["imagenet-files"], "1.28 million JPEG files of 114 kB"),
    choice("imagenet-records", &["imagenet-tfrecord", "webdataset"], "the same in record files"),
    choice("coco", &[], "118 thousand JPEG files of 165 kB"),
    choice("cifar10", &["cifar", "cifar100"], "50 thousand images of 3 kB in one file"),
    choice("mnist", &[], "60 thousand files of 784 B"),
    choice(
        "kits19",
        &["unet3d"],
        "7 thousand volumes of 147 MB, as MLPerf Storage's UNet3D reads them",
    ),
    choice(
        "cosmoflow",
        &[],
        "524 thousand records of 2.8 MB, as MLPerf Storage's CosmoFlow reads them",
    ),
    choice(
        "tokens",
        &["c4", "text", "pile", "wikipedia"],
        "100 million sequences of tokens in shards",
    ),
];

/// Returns the choice with this name, ignoring case.
///
/// # Errors
/// If no choice of `what` has the name. The message contains the most similar name and the known names.
pub fn find(
    what: &str,
    choices: &'static [Choice],
    name: &str,
) -> Result<&'static Choice, TemplateError> {
    let wanted = name.trim().to_lowercase();
    let is = |of: &&Choice| of.name == wanted || of.also.contains(&wanted.as_str());
    choices.iter().find(is).ok_or_else(|| {
        // Main names come first, because a long list is not shown whole.
        let main = choices.iter().map(|of| of.name);
        let known: Vec<&str> = main.chain(choices.iter().flat_map(|of| of.also).copied()).collect();
        TemplateError(format!("there is no {what} `{}`: {}", name.trim(), choose(&wanted, &known)))
    })
}

/// Returns the names of the models for which a scenario can be written: all models whose layers are in the catalogue, and
/// workloads of MLPerf Storage.
#[must_use]
pub fn models() -> Vec<&'static str> {
    workload::names()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_choices_accept_aliases_and_suggest_a_name_for_typos() {
        assert_eq!(find("storage", &STORAGES, "File-Server").map(|of| of.name), Ok("nfs"));
        let error = find("loader", &LOADERS, "pytorhc").expect_err("no such loader").to_string();
        assert!(
            error.starts_with("there is no loader `pytorhc`: did you mean `pytorch`?"),
            "{error}"
        );
        let error =
            find("storage", &STORAGES, "floppy drive").expect_err("no such storage").to_string();
        assert!(error.contains("known here: `nfs`"), "{error}");
    }

    #[test]
    fn names_of_loader_storage_and_data_set_choices_are_unique() {
        for choices in [&LOADERS[..], &STORAGES[..], &DATASETS[..]] {
            let mut names: Vec<&str> = choices
                .iter()
                .flat_map(|of| [of.name].into_iter().chain(of.also.iter().copied()))
                .collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }
}
