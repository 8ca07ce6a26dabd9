//! Changes that may make a job faster, from a list that the verdict's own rules have no part in: twice an amount, half a time, another word.

use forebay::scenario::change::{Change, Editor};
use forebay::scenario::{Override, Scenario, ScenarioFile};

/// What is done with a key.
#[derive(Debug, Clone, Copy)]
enum What {
    /// Twice the amount, or less where the scenario refuses it; the number is the amount that holds if the file leaves the key out, or 0.
    More(u32),
    /// Half the time.
    Less,
    /// Another word.
    Set(&'static str),
    /// Without it.
    Unset,
}

use What::{Less, More, Set, Unset};

/// A row of the list: where a key stands, what is done with it, and the words in which the verdict names it.
type Row = (&'static str, What, &'static str);

/// Keys of the whole cluster.
const CLUSTER: &[Row] = &[
    ("cluster.network.nic", More(0), "NICs"),
    ("cluster.network.storage_nic", More(0), "NICs for storage"),
    ("cluster.network.racks.uplink", More(0), "rack uplinks"),
    ("cluster.network.latency", Less, "network latency"),
    ("cluster.node.cores", More(0), "cores"),
    ("cluster.node.pcie", More(0), "host-to-device links"),
    ("cluster.node.memory_bandwidth", More(0), "memory bandwidth"),
    ("cluster.node.gpu_memory_bandwidth", More(0), "GPU memory bandwidth"),
    ("cluster.node.intra.bandwidth", More(0), "links between the GPUs of a node"),
    ("cluster.node.intra.uplink", More(0), "uplinks between the GPUs of a node"),
    ("cluster.node.intra.root", More(0), "the root between the GPUs of a node"),
    ("cluster.node.intra.latency", Less, "latency between the GPUs of a node"),
    ("cluster.node.page_cache.bandwidth", More(0), "page cache bandwidth"),
    ("cluster.node.page_cache.capacity", More(0), "page cache capacity"),
    ("cluster.node.memory", More(0), "page cache capacity"),
];

/// Keys of a group of nodes.
const GROUP: &[Row] = &[
    ("nic", More(0), "nic"),
    ("node.cores", More(0), "cores"),
    ("node.pcie", More(0), "host-to-device links"),
    ("node.gpu_speed", More(0), "computing"),
];

/// Keys of a storage, whatever its kind.
const STORAGE: &[Row] = &[
    ("bandwidth", More(0), "bandwidth"),
    ("write_bandwidth", More(0), "write bandwidth"),
    ("operations", More(0), "operations"),
    ("requests", More(0), "the request rate"),
    ("per_stream", More(0), "the speed of single streams"),
    ("per_connection", More(0), "the speed of single streams"),
    ("latency", Less, "latency"),
    ("seek", Less, "the arm"),
    ("targets", More(0), "storage targets"),
    ("target_bandwidth", More(0), "storage targets"),
    ("stripe_count", More(1), "the stripe count"),
    ("queues", More(0), "I/O queues"),
    ("queue_depth", More(128), "the depth of I/O queues"),
    ("queue_bandwidth", More(0), "the bandwidth of I/O queues"),
];

/// Keys of a job. `sync`, `loader` and the like stand for the kind that the job has.
const JOB: &[Row] = &[
    ("loader.pytorch.workers", More(0), "loader workers"),
    ("loader.pytorch.decode", Less, "the work of decoding"),
    ("loader.pytorch.collate", Less, "the work of collating"),
    ("loader.pytorch.delay", Less, "delays of the loader"),
    ("loader.pytorch.prefetch_factor", More(2), "prefetch depth"),
    ("loader.pytorch.in_order", Set("false"), "delivery in order"),
    ("loader.pytorch.persistent_workers", Set("true"), "restarts of the loader"),
    ("loader.pytorch.start", Less, "the start of workers"),
    ("loader.pytorch.worker_kind", Set("process"), "the interpreter's lock"),
    ("loader.pytorch.gil", Less, "the interpreter's lock"),
    ("loader.pytorch.ipc", More(0), "memory copies of the loader"),
    ("loader.pytorch.pin_memory", Less, "the pinning thread"),
    ("loader.keras.workers", More(0), "loader workers"),
    ("loader.keras.decode", Less, "the work of decoding"),
    ("loader.keras.collate", Less, "the work of collating"),
    ("loader.keras.max_queue_size", More(10), "prefetch depth"),
    ("loader.keras.use_multiprocessing", Set("true"), "the interpreter's lock"),
    ("loader.keras.gil", Less, "the interpreter's lock"),
    ("loader.keras.start", Less, "the start of workers"),
    ("loader.tf-data.parallel_calls", More(0), "parallel calls of the loader"),
    ("loader.tf-data.parallel_reads", More(1), "parallel reads of the loader"),
    ("loader.tf-data.prefetch", More(1), "prefetch depth"),
    ("loader.tf-data.deterministic", Set("false"), "delivery in order"),
    ("loader.tf-data.decode", Less, "the work of decoding"),
    ("loader.tf-data.collate", Less, "the work of collating"),
    ("loader.tf-data.delay", Less, "delays of the loader"),
    ("loader.tf-data.start", Less, "the start of the pipeline"),
    ("loader.tf-data.start_per_file", Less, "the start of the pipeline"),
    ("loader.tf-queue.threads", More(0), "loader workers"),
    ("loader.tf-queue.capacity", More(0), "prefetch depth"),
    ("loader.tf-queue.decode", Less, "the work of decoding"),
    ("loader.tf-queue.examples.readers", More(0), "readers of the loader"),
    ("loader.dali.threads", More(0), "loader workers"),
    ("loader.dali.readers", More(1), "readers of the loader"),
    ("loader.dali.prefetch_queue_depth", More(2), "prefetch depth"),
    ("loader.dali.decode", Less, "the work of decoding"),
    ("loader.dali.gpu.decode", Less, "the work of decoding"),
    ("cpu_quota", More(0), "the CPU quota"),
    ("decoded_cache.capacity", More(0), "capacity"),
    ("hand_off", Less, "hand off"),
    ("model.step", Less, "computing"),
    ("model.jitter", Unset, "jitter of step times"),
    ("model.launch", Less, "the trainer's own work"),
    ("sync.allreduce.gradients", Less, "bytes of gradients"),
    ("sync.reduce-broadcast.parameters", Less, "bytes of parameters"),
    ("sync.reduce-broadcast.update", Less, "the root's update"),
    ("sync.model-averaging.parameters", Less, "bytes of parameters"),
    ("sync.model-averaging.period", More(1), "exchanges between model copies"),
    ("sync.elastic-averaging.parameters", Less, "bytes of parameters"),
    ("sync.elastic-averaging.period", More(0), "exchanges between model copies"),
    ("sync.elastic-averaging.server.nic", More(0), "NICs of the parameter servers"),
    ("sync.parameter-server.parameters", Less, "bytes of parameters"),
    ("sync.parameter-server.server.nic", More(0), "NICs of the parameter servers"),
    ("sync.allreduce.overlap", Set("true"), "exchanges that training waits for"),
    ("parallel.pipeline.micro_batches", More(0), "pipeline bubbles"),
    ("parallel.pipeline.activations", Less, "activations"),
    ("checkpoint.asynchronous", Set("true"), "checkpoints that training waits for"),
    ("checkpoint.interval", More(0), "checkpoints"),
    ("checkpoint.steps", More(0), "checkpoints"),
    ("checkpoint.bytes", Less, "bytes of checkpoints"),
    ("checkpoint.writers", Set("each"), "the number of ranks that write checkpoints"),
    ("checkpoint.pause", Less, "pauses for checkpoints"),
    ("failures", Unset, "failures"),
    ("failures.mtbf", More(0), "failures"),
    ("failures.restart", Less, "restarts after failures"),
    ("accumulation", More(0), "accumulation of gradients"),
    ("batch_interval", More(0), "the batch interval (which changes training)"),
];

/// Ends of the keys that change what the model learns, and not only how fast.
const OF_TRAINING: [&str; 3] = ["batch_interval", "accumulation", "period"];
/// Keys that set the same amount.
const SAME: [[&str; 2]; 4] = [
    ["job.model.step", "cluster.node.gpu_speed"],
    ["job.model.efficiency", "cluster.node.gpu_speed"],
    ["cluster.node.memory", "cluster.node.page_cache.capacity"],
    ["job.failures", "job.failures.mtbf"],
];

/// A change of a scenario that may make a job faster.
#[derive(Debug, Clone)]
pub(crate) struct Lever {
    /// The key, with `NAME` for names of the user's.
    pub(crate) class: String,
    pub(crate) key: String,
    pub(crate) changes: Vec<Override>,
    /// The words in which the verdict names the limit.
    pub(crate) words: String,
    /// Whether it changes what the model learns.
    pub(crate) of_training: bool,
    /// Whether it makes steps shorter, and nothing that they wait for.
    pub(crate) of_computing: bool,
    /// The change with 32 times the amount, or as much of it as the scenario accepts, if it only gets input to the job.
    pub(crate) plenty: Option<Vec<Override>>,
}

impl Lever {
    /// Returns whether a printed limit is this lever: it changes the same key, or one that sets the same amount.
    pub(crate) fn is(&self, class: &str, changes: &[Override]) -> bool {
        let same = |pair: &[&str; 2]| pair.contains(&self.class.as_str()) && pair.contains(&class);
        // Removing one fault, or all faults, counts as the same lever; the same of background loads.
        let list = ["fault", "background"].contains(&class) && self.class == class;
        list || SAME.iter().any(same) || changes.iter().any(|of| of.key() == self.key)
    }
}

/// Returns the levers of a job of a scenario, with changes before them.
pub(crate) fn all(
    file: &ScenarioFile,
    before: &[Override],
    scenario: &Scenario,
    job: usize,
) -> Vec<Lever> {
    let editor = file.editor(before);
    let mut list = List { file, before, editor, found: Vec::new() };
    for row in CLUSTER {
        list.add("", "", *row, "");
    }
    for group in &scenario.cluster.groups {
        let above = list.editor.key(&["cluster", "group", &group.name]);
        for row in GROUP {
            list.add(&above, "cluster.group.NAME", *row, &format!(" of `{}`", group.name));
        }
    }
    for (index, storage) in scenario.storage.iter().enumerate() {
        let above = list.editor.key(&["storage", &storage.name, storage.kind]);
        let class = format!("storage.NAME.{}", storage.kind);
        if scenario.uses(&scenario.jobs[job], index).any() {
            for row in STORAGE {
                let joint = if row.2.starts_with("the speed") { "from" } else { "of" };
                list.add(&above, &class, *row, &format!(" {joint} `{}`", storage.name));
            }
        }
    }
    let jobs = list.editor.elements("job");
    let above = &jobs[job];
    for row in JOB {
        list.add(above, "job", *row, "");
    }
    list.stages(above);
    for of in ["fault", "background"] {
        list.remove_each(of);
    }
    list.found
}

struct List<'a> {
    file: &'a ScenarioFile,
    before: &'a [Override],
    editor: Editor,
    found: Vec<Lever>,
}

impl List<'_> {
    fn add(&mut self, above: &str, class: &str, (key, what, words): Row, of: &str) {
        let join = |above: &str| match above {
            "" => key.to_owned(),
            above => format!("{above}.{key}"),
        };
        let (key, class) = (join(above), join(class));
        let Some(changes) = self.accepted(&key, what) else { return };
        let is_input = matches!(what, More(_))
            && !["sync", "parallel", "checkpoint", "failures", "batch_interval", "accumulation"]
                .iter()
                .any(|of| class.contains(of));
        let plenty = if is_input { self.plenty(&key, what) } else { None };
        let of_training = changes_training(&class);
        self.found.push(Lever {
            class,
            key,
            changes,
            words: format!("{words}{of}"),
            of_training,
            of_computing: words == "computing",
            plenty,
        });
    }

    /// Returns the change of a key, or as much of it as the scenario accepts; `None` if the file does not have the key.
    fn accepted(&self, key: &str, what: What) -> Option<Vec<Override>> {
        match what {
            More(default) => {
                [2.0, 1.5, 1.25].iter().find_map(|&factor| self.times(key, factor, default))
            }
            Less => self.times(key, 0.5, 0).or_else(|| self.times(key, 0.75, 0)),
            Set(word) => self.tried(self.editor.change(key, &Change::Set(word.into()), None)?),
            Unset => self.tried(self.editor.change(key, &Change::Unset, None)?),
        }
    }

    fn plenty(&self, key: &str, what: What) -> Option<Vec<Override>> {
        let More(default) = what else { return None };
        [32.0, 16.0, 8.0, 4.0, 2.0].iter().find_map(|&factor| self.times(key, factor, default))
    }

    fn times(&self, key: &str, factor: f64, default: u32) -> Option<Vec<Override>> {
        let change = match self.editor.value(key) {
            // The first worker.
            Some(value) if value.as_f64() == Some(0.0) && factor > 1.0 => {
                Override::new(key, (factor as u32 / 2).into())
            }
            None if default > 0 => {
                Override::new(key, ((f64::from(default) * factor) as u32).into())
            }
            _ => self.editor.change(key, &Change::Times(factor), None)?,
        };
        let mut changes = vec![change];
        // A larger cache needs the memory that holds it.
        if let Some(above) = key.strip_suffix("page_cache.capacity") {
            changes.extend(self.editor.change(
                &format!("{above}memory"),
                &Change::Times(factor),
                None,
            ));
        }
        self.resolves(&changes).then_some(changes)
    }

    fn tried(&self, change: Override) -> Option<Vec<Override>> {
        let changes = vec![change];
        self.resolves(&changes).then_some(changes)
    }

    fn resolves(&self, changes: &[Override]) -> bool {
        self.file.resolve(&[self.before, changes].concat()).is_ok()
    }

    /// Adds the levers of stages that the file defines.
    fn stages(&mut self, above: &str) {
        for key in self.editor.elements(&format!("{above}.loader.stages")) {
            let class = "job.loader.stages";
            self.add(&key, class, ("workers", More(0), "loader workers"), "");
            self.add(&key, class, ("buffer", More(0), "prefetch depth"), "");
            self.add(&key, class, ("order", Set("any"), "delivery in order"), "");
            for list in ["per_sample", "per_item"] {
                for operation in self.editor.elements(&format!("{key}.{list}")) {
                    for (work, words) in [
                        ("decode", "the work of decoding"),
                        ("compute", "compute"),
                        ("delay", "delays of the loader"),
                    ] {
                        self.add(&operation, &format!("{class}.{list}"), (work, Less, words), "");
                    }
                }
            }
        }
    }

    /// Adds the lever that removes all elements of a list, and those that remove each.
    fn remove_each(&mut self, list: &str) {
        let elements = self.editor.elements(list);
        let words = if list == "fault" { "faults" } else { "other loads" };
        let mut add = |keys: Vec<&String>| {
            let changes: Vec<Override> = keys.iter().map(|key| Override::unset(*key)).collect();
            if !changes.is_empty() && self.resolves(&changes) {
                self.found.push(Lever {
                    class: list.to_owned(),
                    key: keys[0].clone(),
                    changes,
                    words: words.to_owned(),
                    of_training: false,
                    of_computing: false,
                    plenty: None,
                });
            }
        };
        // Elements behind a removed one move up.
        add(elements.iter().rev().collect());
        if elements.len() > 1 {
            elements.iter().for_each(|key| add(vec![key]));
        }
    }
}

/// Returns whether a key changes what the model learns, and not only how fast.
pub(crate) fn changes_training(class: &str) -> bool {
    OF_TRAINING.iter().any(|end| class.ends_with(end))
}
