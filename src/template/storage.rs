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
             per_connection = \"90 MB/s\" # of each, as in the guidelines of S3\n\
             latency = { lognormal = { median = \"20 ms\", p99 = \"200 ms\" } }\n\
             requests = \"5500 /s\" # of a prefix, by S3's guidelines; beyond, they are refused and come again\n"
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
    /// Number of samples.
    pub(super) samples: u64,
    /// Mean size of a sample [B].
    pub(super) bytes: f64,
    /// Size of a sample, in TOML.
    size: String,
    /// Layout, in TOML.
    layout: String,
    /// Core time for decoding a sample; `None` if samples are not decoded.
    pub(super) decode: Option<&'static str>,
}

impl Data {
    /// Returns the keys of the data set's table, in TOML, with `samples` samples.
    pub(super) fn text(&self, samples: u64) -> String {
        let Data { size, layout, .. } = self;
        let fewer = match samples < self.samples {
            true => format!(" # of {}: as many as the memory of a node holds", self.samples),
            false => String::new(),
        };
        format!("samples = {samples}{fewer}\nsample_size = {size}\nlayout.{layout}\n")
    }
}

/// Memory of a node, and how many samples it has room for.
pub(super) struct NodeMemory {
    /// Memory [GiB].
    pub(super) gibibytes: u64,
    /// Why it is so large.
    pub(super) why: &'static str,
    /// Samples of the data set.
    pub(super) samples: u64,
}

/// Memory for each GPU [GiB]: a DGX A100 has 1 TB for eight (NVIDIA DGX A100 data sheet, 2020).
const MEMORY_OF_GPU: u64 = 128;
/// Largest memory of a node [GiB]: a DGX H100 has 2 TB (NVIDIA DGX H100 data sheet, 2023).
const MOST_MEMORY: u64 = 2048;
/// Part of the memory that a data set in memory may take: loaders and decoded batches need the rest.
const PART: f64 = 0.75;

impl NodeMemory {
    /// Returns the memory of a node with `gpus` GPUs, which holds `data` if that is `held`.
    pub(super) fn of(data: &Data, gpus: u64, held: bool) -> NodeMemory {
        let usual = MEMORY_OF_GPU * gpus;
        let gib = |of: f64| of / f64::from(1 << 30);
        let needed = (gib(data.samples as f64 * data.bytes) / PART).ceil() as u64;
        if !held || needed <= usual {
            let why = "what is left of it caches the files that were read";
            return NodeMemory { gibibytes: usual, why, samples: data.samples };
        }
        let gibibytes = needed.next_power_of_two().min(MOST_MEMORY).max(usual);
        let room = PART * gibibytes as f64 * f64::from(1 << 30) / data.bytes;
        let round = 10_f64.powf(room.log10().floor() - 1.0);
        let samples = data.samples.min(((room / round).floor() * round) as u64);
        NodeMemory { gibibytes, why: "it holds the data set", samples }
    }
}

/// Returns the data set with this main name; `tokens` is the length of a sample, for data sets of token sequences.
pub(super) fn dataset(name: &str, tokens: u64) -> Data {
    let files = |samples: u64, bytes: f64, size: &str, decode| Data {
        samples,
        bytes,
        size: size.to_owned(),
        layout: "file-per-sample = {} # or: layout.shards = { samples = 1000 }".to_owned(),
        decode: Some(decode),
    };
    let shards = |samples: u64, bytes: f64, size: &str, each: u64, decode| Data {
        samples,
        bytes,
        size: size.to_owned(),
        layout: format!("shards = {{ samples = {each}, request = \"1 MiB\" }}"),
        decode,
    };
    let jpeg = "{ lognormal = { mean = \"114 kB\", cv = 0.6 } } # varies from image to image";
    match name {
        "imagenet-records" => shards(1_281_167, 114e3, jpeg, 1251, Some("7 ms")),
        "coco" => {
            let size = "{ lognormal = { mean = \"165 kB\", cv = 0.5 } }";
            files(118_287, 165e3, size, "9 ms")
        }
        "cifar10" => Data {
            samples: 50_000,
            bytes: 3073.0,
            size: "\"3073 B\"".to_owned(),
            layout: "raw = {}".to_owned(),
            decode: Some("50 us"),
        },
        "mnist" => files(60_000, 784.0, "\"784 B\"", "20 us"),
        "kits19" => {
            let size = "{ normal = { mean = \"147 MB\", sd = \"48 MB\" } }";
            files(7_000, 147e6, size, "300 ms")
        }
        "cosmoflow" => {
            let size = "{ normal = { mean = \"2.8 MB\", sd = \"71 kB\" } }";
            shards(524_288, 2.8e6, size, 1, Some("5 ms"))
        }
        "tokens" => {
            let bytes = 4 * tokens;
            let size = format!(
                "\"{bytes} B\" # {tokens} tokens of 4 B; 2 B hold up to 65,536 different ones"
            );
            // Sequences are copied into a batch, in a time that varies.
            shards(100_000_000, bytes as f64, &size, 10_000, Some("50 us"))
        }
        _ => files(1_281_167, 114e3, jpeg, "7 ms"),
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
        let texts: Vec<String> = DATASETS
            .iter()
            .map(|of| dataset(of.name, 2048))
            .map(|data| data.text(data.samples))
            .collect();
        let all: std::collections::BTreeSet<&String> = texts.iter().collect();
        assert_eq!(all.len(), texts.len(), "{texts:?}");
    }
}
