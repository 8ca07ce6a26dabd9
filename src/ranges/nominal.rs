//! Nominal numbers of a scenario that have a range of published results, and the changes of the file that a draw makes.

use super::{Line, Reached, Unit, all};
use crate::catalogue::Precision;
use crate::scenario::change::{Amount, AmountUnit, Editor, Movable};
use crate::scenario::cluster::IntraKind;
use crate::scenario::{Job, Override, Scenario};
use crate::units::{Bandwidth, Quantity};
use crate::verdict::Source;

/// Paths in the schema of keys of all nodes.
const NIC: &str = "cluster.network.nic";
const STORAGE_NIC: &str = "cluster.network.storage_nic";
const INSIDE: &str = "cluster.node.intra.bandwidth";

/// A number of a scenario that nobody measured and that has a range.
#[derive(Debug, Clone, PartialEq)]
pub struct Nominal {
    /// Key of the number.
    pub key: String,
    /// Its value in the file, without quotes; `None` if the file leaves it to its default.
    pub value: Option<String>,
    /// What publications reached.
    pub range: &'static Reached,
    /// Why sockets are taken, if the file does not say how gradients take the line.
    pub unset: Option<&'static str>,
    place: Place,
}

/// What a scenario says of how a job's gradients take the line between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    /// How much of the line they reach.
    Known,
    /// Neither that nor the kind of transport.
    Unset,
    /// MPI, which takes sockets or RDMA.
    Mpi,
    Sockets,
    Rdma,
}

/// Keys of a transport that say how much of the line is reached.
const REACHED: [&str; 3] = ["efficiency", "per_stream", "profile"];

/// What a draw changes in the file.
#[derive(Debug, Clone, PartialEq)]
enum Place {
    /// The draw multiplies these amounts. If they are NICs that gradients take too, `kept` has the `efficiency` of each transport, by key
    /// and as the file has it: the draw raises it, so that gradients get what they got before.
    Amounts { of: Vec<Movable>, kept: Vec<(String, f64)> },
    /// The draw writes the amount at this key.
    Key(String),
    /// The draw sets the `efficiency` of transports at these keys.
    Transports(Vec<String>),
}

/// Returns the numbers of a scenario that have a range: those of data sheets that its file or an override sets, and defaults. What a
/// profile gives was measured, and so was what the file calls achieved.
#[must_use]
pub fn nominal(source: Source<'_>, scenario: &Scenario) -> Vec<Nominal> {
    let editor = source.file.editor(source.overrides);
    let movable = editor.movable(&scenario.origins.assumed());
    let finder = Finder { scenario, jobs: editor.elements("job"), editor, movable };
    let ranges = all().iter();
    ranges.flat_map(|range| finder.numbers(range)).collect()
}

struct Finder<'a> {
    scenario: &'a Scenario,
    editor: Editor,
    /// Limits and choices of the scenario.
    movable: Vec<Movable>,
    /// Keys of the jobs.
    jobs: Vec<String>,
}

impl Finder<'_> {
    fn numbers(&self, range: &'static Reached) -> Vec<Nominal> {
        use Transport::{Mpi, Rdma, Sockets, Unset};
        match range.line {
            Some(Line::Sockets) => self.gradients(range, &[Sockets, Mpi, Unset]),
            Some(Line::Rdma) => self.gradients(range, &[Rdma]),
            Some(Line::Nvlink | Line::Pcie) if self.uses_link(range) => {
                self.of_nodes(range, INSIDE)
            }
            Some(Line::Reads) if self.reads_remotely() => {
                let has_own = self.scenario.cluster.storage_nic.is_some();
                self.of_nodes(range, if has_own { STORAGE_NIC } else { NIC })
            }
            Some(_) => Vec::new(),
            None => self.of_keys(range),
        }
    }

    /// Returns the number of what all nodes and groups of nodes have; none if no file says it, or if the slowest was measured.
    fn of_nodes(&self, range: &'static Reached, class: &str) -> Vec<Nominal> {
        let places = self.written(class).into_iter().filter(|of| range.has(bandwidth(of)));
        let of: Vec<Movable> = places.collect();
        let Some(slowest) = self.slowest(&of) else { return Vec::new() };
        let kept = if class == NIC { self.kept() } else { Vec::new() };
        let of = of.into_iter().filter(|of| !self.is_achieved(&of.key)).collect();
        vec![Nominal::at(&slowest, range, Place::Amounts { of, kept })]
    }

    /// Returns the slowest of some links; `None` if there is none, or if it was measured.
    fn slowest(&self, links: &[Movable]) -> Option<Movable> {
        let slowest = links.iter().min_by(|a, b| bandwidth(a).total_cmp(&bandwidth(b)))?;
        (!self.is_achieved(&slowest.key)).then(|| slowest.clone())
    }

    /// Returns the key of the share of the line that each transport reaches, and the share that the file has.
    fn kept(&self) -> Vec<(String, f64)> {
        let jobs = self.scenario.jobs.iter().zip(&self.jobs);
        let transports = jobs.filter_map(|(job, key)| Some(self.transport(job, key)?.1));
        let measured =
            |transport: &String| self.editor.value(&format!("{transport}.profile")).is_some();
        let share = |transport: String| {
            let key = format!("{transport}.efficiency");
            let written = self.editor.value(&key).and_then(|value| value.as_f64());
            (key, written.unwrap_or(1.0))
        };
        transports.filter(|transport| !measured(transport)).map(share).collect()
    }

    /// Returns what the file writes at a key of all nodes and of groups of nodes.
    fn written(&self, class: &str) -> Vec<Movable> {
        let below = class.trim_start_matches("cluster.").trim_start_matches("network.");
        let of_group = format!("cluster.group.NAME.{below}");
        let is_one = |of: &&Movable| of.class == class || of.class == of_group;
        self.movable.iter().filter(is_one).filter(|of| of.is_written).cloned().collect()
    }

    /// Returns the number of the NIC for gradients with one of these kinds of transport.
    fn gradients(&self, range: &'static Reached, kinds: &[Transport]) -> Vec<Nominal> {
        let jobs = self.scenario.jobs.iter().zip(&self.jobs);
        let found: Vec<(Transport, String)> = jobs
            .filter_map(|(job, key)| self.transport(job, key))
            .filter(|(kind, _)| kinds.contains(kind))
            .collect();
        let transports: Vec<String> =
            found.iter().map(|(_, transport)| format!("{transport}.efficiency")).collect();
        let Some(nic) = self.slowest(&self.written(NIC)).filter(|_| !transports.is_empty()) else {
            return Vec::new();
        };
        let has = |kind: Transport| found.iter().any(|(of, _)| *of == kind);
        let unset = match (has(Transport::Unset), has(Transport::Mpi)) {
            (true, _) => Some("the transport of gradients is not set"),
            (false, true) => Some("MPI takes sockets or RDMA"),
            (false, false) => None,
        };
        vec![Nominal { unset, ..Nominal::at(&nic, range, Place::Transports(transports)) }]
    }

    /// Returns the kind and the key of the transport that carries gradients of the job at `key` between nodes: NCCL if the file writes
    /// none. `None` if nothing is carried between nodes.
    fn transport(&self, job: &Job, key: &str) -> Option<(Transport, String)> {
        let sync = job.sync.as_ref()?;
        if job.nodes <= 1 && sync.servers.is_none() {
            return None;
        }
        let exchange = self.editor.first_below(&format!("{key}.sync"))?;
        let written = self.editor.first_below(&format!("{exchange}.transport"));
        let kind = written.as_ref().and_then(|key| key.rsplit('.').next());
        let found = match kind {
            Some("nccl" | "mpi-cuda-aware") => Transport::Rdma,
            Some("tcp" | "gloo" | "grpc") => Transport::Sockets,
            Some(_) => Transport::Mpi,
            None => Transport::Unset,
        };
        let transport = written.unwrap_or_else(|| format!("{exchange}.transport.nccl"));
        let is_known =
            REACHED.iter().any(|of| self.editor.value(&format!("{transport}.{of}")).is_some());
        Some((if is_known { Transport::Known } else { found }, transport))
    }

    /// Returns the numbers at the keys that a range names and that jobs use.
    fn of_keys(&self, range: &'static Reached) -> Vec<Nominal> {
        let has_range = |of: &&Movable| range.keys.contains(&of.class);
        let used = self.movable.iter().filter(has_range).filter(|of| self.is_used(of));
        let known = used.filter(|of| !self.is_achieved(&of.key) && self.holds(range, of));
        let place = |of: &Movable| match (range.unit, of.is_written) {
            (Unit::Share, true) => Some(Place::Amounts { of: vec![of.clone()], kept: Vec::new() }),
            // A default that sets no limit, or a share that was written without a measurement.
            (Unit::Bandwidth, false) | (Unit::Number, true) => Some(Place::Key(of.key.clone())),
            _ => None,
        };
        known.filter_map(|of| Some(Nominal::at(of, range, place(of)?))).collect()
    }

    /// Returns whether a range holds for a number: for the bandwidth, the GPU in 16 bits, and the model.
    fn holds(&self, range: &Reached, of: &Movable) -> bool {
        let begins = |names: &[String], name: &str| names.iter().any(|of| name.starts_with(of));
        let gpu = self.scenario.cluster.node.gpu.map_or("", |gpu| gpu.name);
        let job = self.jobs.iter().position(|job| of.key.starts_with(&format!("{job}.")));
        let is_in_16_bits = || {
            let peak = job.and_then(|job| self.scenario.jobs[job].peak);
            matches!(peak, Some(Precision::Fp16 | Precision::Bf16))
        };
        let model = || {
            let value = self.editor.value(&format!("{}.model.catalogue", self.jobs[job?]))?;
            Some(value.as_str()?.to_owned())
        };
        (of.value.is_none() || range.unit != Unit::Share || range.has(bandwidth(of)))
            && (range.gpus.is_empty() || begins(&range.gpus, gpu) && is_in_16_bits())
            && (range.models.is_empty() || model().is_some_and(|of| begins(&range.models, &of)))
    }

    fn is_achieved(&self, key: &str) -> bool {
        self.scenario.achieved.iter().any(|of| of == key)
    }

    /// Returns whether a job reads from the storage that a key is about; other keys are used.
    fn is_used(&self, of: &Movable) -> bool {
        let storages = self.scenario.storage.iter().enumerate();
        let mut owners = storages.filter(|(_, storage)| {
            let above = self.editor.key(&["storage", &storage.name]);
            of.key.strip_prefix(&above).is_some_and(|rest| rest.starts_with('.'))
        });
        owners.next().is_none_or(|(index, _)| {
            let mut uses = self.scenario.jobs.iter().map(|job| self.scenario.uses(job, index));
            uses.any(|of| of.reads)
        })
    }

    /// Returns whether GPUs of a node send each other something over links of their own that a range is about. What a shared link or a
    /// tree of them loses to others is simulated.
    fn uses_link(&self, range: &Reached) -> bool {
        let cluster = &self.scenario.cluster;
        let nodes = std::iter::once(&cluster.node).chain(cluster.groups.iter().map(|of| &of.node));
        let is_own = |kind: IntraKind| matches!(kind, IntraKind::Switch | IntraKind::Ring);
        let mut links = nodes.map(|node| &node.intra).filter(|link| is_own(link.kind));
        links.any(|link| range.has(link.bandwidth)) && self.scenario.jobs.iter().any(sends_inside)
    }

    fn reads_remotely(&self) -> bool {
        self.scenario.jobs.iter().any(|job| {
            let storage = self.scenario.storage.get(job.reads_from());
            job.reads_data() && storage.is_some_and(|storage| storage.path.is_remote())
        })
    }
}

impl Nominal {
    fn at(of: &Movable, range: &'static Reached, place: Place) -> Nominal {
        let written = of.value.as_ref().filter(|_| of.is_written);
        let value = written.map(|value| value.as_written().trim_matches('"').to_owned());
        Nominal { key: of.key.clone(), value, range, unset: None, place }
    }

    /// Returns whether this is the same number in another variant of the scenario.
    #[must_use]
    pub fn is_same(&self, other: &Nominal) -> bool {
        self.key == other.key && self.range.name == other.range.name
    }

    /// Returns whether publications may have reached more than the scenario has.
    #[must_use]
    pub fn may_be_exceeded(&self) -> bool {
        self.range.unit == Unit::Number
    }
}

/// Returns the bandwidth that a key has [B/s]; infinite if it has none.
fn bandwidth(of: &Movable) -> f64 {
    let value = of.value.as_ref().and_then(|value| value.as_str()?.parse().ok());
    value.map_or(f64::INFINITY, |value: Quantity<Bandwidth>| value.si())
}

fn sends_inside(job: &Job) -> bool {
    job.copies_per_node > 1 && job.sync.is_some() || job.parallelism.is_some()
}

/// Returns the overrides that set the numbers to these amounts, on all nodes alike; none for a number that the file has already.
#[must_use]
pub fn changes(drawn: &[(&Nominal, f64)]) -> Vec<Override> {
    // A draw that makes the NIC slower for reads must not make gradients slower: their share is one of the whole line.
    let reads = drawn.iter().find_map(|(of, share)| match &of.place {
        Place::Amounts { kept, .. } if !kept.is_empty() => Some((kept, *share)),
        _ => None,
    });
    let shared = reads.map_or(1.0, |(_, share)| share);
    let is_drawn = |key: &String| {
        drawn
            .iter()
            .any(|(of, _)| matches!(&of.place, Place::Transports(keys) if keys.contains(key)))
    };
    let written = |value: f64, unit: AmountUnit| Amount { value, unit }.written();
    let of_number = |(of, drawn): &(&Nominal, f64)| -> Vec<Override> {
        match &of.place {
            Place::Amounts { of, .. } => of.iter().filter_map(|of| of.times(*drawn)).collect(),
            Place::Key(key) => {
                let value = of.range.unit.amount().and_then(|unit| written(*drawn, unit));
                value.map(|value| Override::new(key, value)).into_iter().collect()
            }
            Place::Transports(keys) => {
                let share = written((drawn / shared).min(1.0), AmountUnit::Number);
                let one = |key: &String| Some(Override::new(key, share.clone()?));
                keys.iter().filter_map(one).collect()
            }
        }
    };
    let kept = reads.into_iter().flat_map(|(kept, _)| kept).filter(|(key, _)| !is_drawn(key));
    let keep = |(key, share): &(String, f64)| {
        let share = written((share / shared).min(1.0), AmountUnit::Number)?;
        Some(Override::new(key, share))
    };
    drawn.iter().flat_map(of_number).chain(kept.filter_map(keep)).collect()
}
