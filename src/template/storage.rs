//! Tables of storages and data sets in a first scenario.

/// Returns the table of the storage with this main name.
pub(super) fn storage(name: &str) -> &'static str {
    match name {
        "nvme" => {
            "[storage.nvme.local-disk] # in each node\n\
             bandwidth = \"6 GB/s\"\n\
             latency = \"100 us\" # from request to first byte\n"
        }
        "nvme-of" => {
            "[storage.nvme-of.nvme-of]\n\
             bandwidth = \"20 GB/s\" # of the target, for all nodes together\n\
             queues = 16 # I/O queues of each node: nr-io-queues of `nvme connect`\n\
             queue_bandwidth = \"2 GB/s\" # of each: over TCP, one connection\n\
             latency = \"120 us\" # from request to first byte\n\
             operations = \"2 M/s\" # requests of all nodes together\n"
        }
        "hdd" => {
            "[storage.hdd.local-disk] # in each node\n\
             bandwidth = \"200 MB/s\"\n\
             seek = \"8 ms\" # one request at a time\n"
        }
        "lustre" => {
            "[storage.lustre.parallel-fs]\n\
             targets = 16 # storage targets (OSTs)\n\
             target_bandwidth = \"2 GB/s\" # of each\n\
             stripe_count = 1 # targets that a file is on\n\
             latency = \"1 ms\"\n\
             operations = \"50000 /s\" # opens, at the metadata server\n"
        }
        "s3" => {
            "[storage.s3.object-store]\n\
             bandwidth = \"100 Gbit/s\" # of all requests together\n\
             per_connection = \"90 MB/s\" # of each\n\
             latency = { lognormal = { median = \"20 ms\", p99 = \"200 ms\" } }\n\
             requests = \"5500 /s\" # beyond, they are refused and come again\n"
        }
        "memory" => "[storage.memory.memory] # nothing is waited for but the memory itself\n",
        "measured" => {
            "[storage.measured.measured] # replace this table: `forebay calibrate` measures one\n\
             sizes = [\"4 KiB\", \"128 KiB\", \"1 MiB\"]\n\
             requests = [1, 8, 64] # in progress at once\n\
             throughput = [ # a row for each size\n    \
                 [\"8 MB/s\", \"60 MB/s\", \"200 MB/s\"],\n    \
                 [\"150 MB/s\", \"900 MB/s\", \"1.5 GB/s\"],\n    \
                 [\"500 MB/s\", \"1.6 GB/s\", \"2 GB/s\"],\n\
             ]\n\
             remote = true # shared by all nodes\n"
        }
        _ => {
            "[storage.nfs.file-server]\n\
             bandwidth = \"2 GB/s\" # of the server, for all nodes together\n\
             per_stream = \"1 GB/s\" # of one request\n\
             latency = { lognormal = { median = \"1 ms\", p99 = \"10 ms\" } }\n\
             operations = \"20000 /s\" # files opened; a data sheet may count 3 to 5 for each\n"
        }
    }
}

/// Returns the main name of the storage to which checkpoints are written, and the commented table of this storage. Checkpoints go to
/// the storage of the data (`name`), without a table, unless the scenario does not say how fast that is written to.
pub(super) fn of_checkpoints(name: &str) -> (&str, &'static str) {
    match name {
        "hdd" | "measured" => (
            "checkpoints",
            "# [storage.checkpoints.file-server] # how fast the storage of the data is written to is not known\n\
             # bandwidth = \"1 GB/s\"\n",
        ),
        _ => (name, ""),
    }
}

/// A data set in a first scenario.
pub(super) struct Data {
    /// Keys of the data set's table, in TOML.
    pub(super) text: String,
    /// Core time for decoding a sample; `None` if samples are not decoded.
    pub(super) decode: Option<&'static str>,
}

/// Returns the data set with this main name; `tokens` is the length of a sample, for data sets of token sequences.
pub(super) fn dataset(name: &str, tokens: u64) -> Data {
    let files = |samples: u64, size: &str, decode| Data {
        text: format!(
            "samples = {samples}\nsample_size = {size}\nlayout.file-per-sample = {{}} # or: layout.shards = {{ samples = \
             1000 }}\n"
        ),
        decode: Some(decode),
    };
    let shards = |samples: u64, size: &str, each: u64, decode| Data {
        text: format!(
            "samples = {samples}\nsample_size = {size}\nlayout.shards = {{ samples = {each}, request = \"1 MiB\" }}\n"
        ),
        decode,
    };
    let jpeg = "{ lognormal = { mean = \"114 kB\", cv = 0.6 } } # varies from image to image";
    match name {
        "imagenet-records" => shards(1_281_167, jpeg, 1251, Some("7 ms")),
        "coco" => files(118_287, "{ lognormal = { mean = \"165 kB\", cv = 0.5 } }", "9 ms"),
        "cifar10" => Data {
            text: "samples = 50000\nsample_size = \"3073 B\"\nlayout.raw = {}\n".to_owned(),
            decode: Some("50 us"),
        },
        "mnist" => files(60_000, "\"784 B\"", "20 us"),
        "kits19" => files(7_000, "{ normal = { mean = \"147 MB\", sd = \"68 MB\" } }", "300 ms"),
        "cosmoflow" => {
            let size = "{ normal = { mean = \"2.8 MB\", sd = \"71 kB\" } }";
            shards(524_288, size, 1, Some("5 ms"))
        }
        "tokens" => {
            let size = format!(
                "\"{} B\" # {tokens} tokens of 4 B; 2 B hold up to 65,536 different ones",
                4 * tokens
            );
            // Sequences are copied into a batch, in a time that varies.
            shards(100_000_000, &size, 10_000, Some("50 us"))
        }
        _ => files(1_281_167, jpeg, "7 ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{DATASETS, STORAGES};

    #[test]
    fn every_storage_and_data_set_choice_has_its_own_template_text() {
        for choice in STORAGES {
            let text = storage(choice.name);
            assert!(text.starts_with(&format!("[storage.{}.", choice.name)), "{text}");
        }
        let texts: Vec<String> = DATASETS.iter().map(|of| dataset(of.name, 2048).text).collect();
        let all: std::collections::BTreeSet<&String> = texts.iter().collect();
        assert_eq!(all.len(), texts.len(), "{texts:?}");
    }
}
