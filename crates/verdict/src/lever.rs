//! Levers: changes of a scenario that may make a job faster, as the options `--set` and `--unset` that make them.

use forebay_report::{Cause, Owner, Resource};
use forebay_scenario::change::{Amount, AmountUnit, Editor, Movable};
use forebay_scenario::{
    Arrivals, Every, Job, Override, Reading, Scenario, ScenarioFile, Schedule, Storage, Value,
};

use super::numbers::FACTOR;
use super::rules::{self, Reach, Rule};

/// A scenario file with overrides, and how it is read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The scenario file.
    pub file: &'a ScenarioFile,
    /// Overrides from the command line.
    pub overrides: &'a [Override],
    /// How the file is read.
    pub reading: Reading<'a>,
}

impl Source<'_> {
    /// Returns the scenario with these changes; `None` if it is refused.
    pub(crate) fn with(&self, changes: &[Override]) -> Option<Scenario> {
        self.file.resolve_as(&[self.overrides, changes].concat(), self.reading).ok()
    }
}

/// A change of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lever {
    /// Path of the first key in the schema.
    pub(crate) class: String,
    /// The changed keys.
    pub(crate) changes: Vec<Override>,
    /// What an amount is multiplied by; `None` if something else is done with the key.
    pub(crate) factor: Option<f64>,
    /// What the key belongs to.
    pub(crate) owner: Of,
    /// What of a step it acts on.
    pub(crate) reach: Reach,
    /// The amount that it multiplies, if it does.
    pub(crate) scaled: Option<Scaled>,
}

/// An amount of a scenario that may be multiplied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scaled {
    of: Movable,
    /// The amount, if the file leaves it out and has no default that is a value.
    amount: Option<Amount>,
    /// The key of the node's memory, which grows along with the capacity of the page cache inside it; `None` for other amounts.
    memory: Option<Movable>,
}

impl Scaled {
    /// Returns the overrides that multiply the amount; `None` if it has no such multiple.
    pub(crate) fn times(&self, factor: f64) -> Option<Vec<Override>> {
        let one = match (self.of.number(), &self.of.value) {
            // The first worker, and more of them.
            (Some(0.0), _) if factor > 1.0 => {
                Override::new(&self.of.key, ((factor - 1.0).ceil() as u32).into())
            }
            (_, Some(_)) => self.of.times(factor)?,
            (_, None) => Override::new(&self.of.key, self.amount?.times(factor)?),
        };
        let memory = self.memory.as_ref().and_then(|memory| memory.times(factor));
        Some(std::iter::once(one).chain(memory).collect())
    }

    /// Returns whether an amount lies between these multiples: none lies between neighbouring whole numbers.
    pub(crate) fn differ(&self, low: f64, high: f64) -> bool {
        let Some(number) = self.of.number().filter(|_| self.of.is_count()) else { return true };
        match number > 0.0 {
            true => (number * high).round() - (number * low).round() > 1.0,
            false => high.ceil() - low.ceil() > 1.0,
        }
    }

    /// Returns the smallest factor, not less than this one, whose product has few digits; this one for whole numbers, whose products are
    /// rounded anyway.
    pub(crate) fn round_up(&self, factor: f64) -> f64 {
        let number = self.of.number().or(self.amount.map(|amount| amount.value));
        let Some(number) = number.filter(|number| *number > 0.0 && !self.of.is_count()) else {
            return factor;
        };
        let product = number * factor;
        // Steps of at most 2 %.
        let unit = 10_f64.powf(product.log10().floor() - 1.0) / 5.0;
        // A product that is round but for rounding stays as it is.
        (product / unit - 1e-6).ceil() * unit / number
    }

    /// Returns the amount now, in SI units, if it is a single one.
    pub(crate) fn now(&self) -> Option<f64> {
        let written = self.of.value.as_ref().and_then(Value::as_f64);
        written.or(self.amount.map(|amount| amount.value))
    }
}

/// What a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The cluster, a data set, or something else of the whole scenario.
    All,
    /// The storage with this index.
    Storage(usize),
    /// The job with this index.
    Job(usize),
    /// The group of nodes with this index.
    Group(usize),
}

impl Lever {
    /// Returns the dotted key of the first change.
    pub(crate) fn key(&self) -> &str {
        self.changes.first().map_or("", Override::key)
    }

    /// Returns the lever that does the same twice; `None` if that means nothing.
    pub(crate) fn twice(&self) -> Option<Lever> {
        let changes = self.scaled.as_ref()?.times(self.factor? * self.factor?)?;
        Some(Lever { changes, ..self.clone() })
    }

    /// Returns how far the key is from what is bought; see [`rules::kind`].
    pub(crate) fn kind(&self) -> u8 {
        rules::kind(&self.class, self.factor.is_some_and(|factor| factor < 1.0))
    }

    /// Returns the name of the limit in words.
    pub(crate) fn words(&self, scenario: &Scenario) -> String {
        let owner = match self.owner {
            Of::Storage(index) => scenario.storage.get(index).map(|of| of.name.as_str()),
            Of::Group(index) => scenario.cluster.groups.get(index).map(|of| of.name.as_str()),
            Of::All | Of::Job(_) => None,
        };
        rules::words(&self.class, owner)
    }

    /// Returns whether the change enlarges this resource.
    pub(crate) fn enlarges(&self, of: Resource) -> bool {
        rules::part(&self.class).is_some_and(|part| self.owns(of.owner) && part(of.part))
    }

    fn owns(&self, owner: Owner) -> bool {
        match (self.owner, owner) {
            (Of::Storage(own), Owner::Storage(index)) => own == index,
            (Of::Job(own), Owner::Job(index)) => own == index,
            (Of::Group(own), Owner::Group(index)) => own == index,
            (Of::All, Owner::Node | Owner::Rack) => true,
            // Nodes of a group have what the group does not set itself.
            (Of::All, Owner::Group(_)) => true,
            (Of::Job(_), Owner::Server) => self.class.contains(".server."),
            _ => false,
        }
    }
}

/// Returns all levers for a job: the keys of the job, of the storages and the data set that it uses, and of the cluster.
pub(crate) fn all(source: Source<'_>, scenario: &Scenario, job: usize) -> Vec<Lever> {
    let editor = source.file.editor(source.overrides);
    let finder = Finder { source, scenario, job, editor: &editor, jobs: editor.elements("job") };
    let movable = editor.movable(&scenario.origins.assumed());
    let mut found: Vec<Lever> = movable.iter().flat_map(|of| finder.levers(of, &movable)).collect();
    // Where the step time is written, it says the same as the speed of GPUs.
    if found.iter().any(|of| of.class == "job.model.step") {
        found.retain(|of| of.class != "cluster.node.gpu_speed");
    }
    found.extend(finder.interleaved());
    found.extend(finder.staggered());
    found
}

struct Finder<'a> {
    source: Source<'a>,
    scenario: &'a Scenario,
    job: usize,
    editor: &'a Editor,
    /// Keys of the jobs.
    jobs: Vec<String>,
}

impl Finder<'_> {
    fn described(&self) -> &Job {
        &self.scenario.jobs[self.job]
    }

    /// Returns the levers of a key; `all` are the limits and choices of the scenario.
    fn levers(&self, of: &Movable, all: &[Movable]) -> Vec<Lever> {
        let Some(owner) = self.owner(of) else { return Vec::new() };
        let rule = rules::rule(of);
        let factors: &[f64] = match rule {
            Rule::More => &[FACTOR],
            Rule::Less => &[1.0 / FACTOR],
            Rule::Both => &[FACTOR, 1.0 / FACTOR],
            Rule::Words | Rule::Put(_) | Rule::Unset | Rule::UnsetEach | Rule::Never => &[],
        };
        let reach = rules::reach(&of.class);
        let lever = |changes: Vec<Override>| {
            let class = of.class.clone();
            Lever { class, changes, factor: None, owner, reach, scaled: None }
        };
        if !factors.is_empty() {
            let scaled = self.scaled(of, all);
            let with = |factor: &f64| {
                let changes = self.accepted(&scaled, *factor)?;
                let scaled = Some(scaled.clone());
                Some(Lever { factor: Some(*factor), scaled, ..lever(changes) })
            };
            return factors.iter().filter_map(with).collect();
        }
        let changes: Vec<Vec<Override>> = match rule {
            Rule::Words => of.others().into_iter().map(|one| vec![one]).collect(),
            Rule::Put(word) => {
                let put = |one: &Override| {
                    one.value().is_some_and(|to| to.as_written().trim_matches('"') == word)
                };
                of.others().into_iter().filter(put).map(|one| vec![one]).collect()
            }
            Rule::Unset => of.unset().into_iter().map(|one| vec![one]).collect(),
            Rule::UnsetEach => self.unset_each(of),
            _ => Vec::new(),
        };
        changes.into_iter().map(lever).collect()
    }

    /// Returns what a key belongs to; `None` if the job does not use it.
    fn owner(&self, of: &Movable) -> Option<Of> {
        let begins = |above: &String| {
            of.key.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        let (scenario, job) = (self.scenario, self.described());
        match of.class.split('.').next() {
            Some("job") => begins(&self.jobs[self.job]).then_some(Of::Job(self.job)),
            Some("storage") => {
                let index = scenario
                    .storage
                    .iter()
                    .position(|storage| begins(&self.editor.key(&["storage", &storage.name])))?;
                let uses = scenario.uses(job, index);
                (uses.reads || uses.writes()).then_some(Of::Storage(index))
            }
            Some("dataset") => {
                let dataset = &scenario.datasets[job.dataset];
                begins(&self.editor.key(&["dataset", &dataset.name])).then_some(Of::All)
            }
            _ if of.class.starts_with("cluster.group.") => {
                let groups = &scenario.cluster.groups;
                let group = groups
                    .iter()
                    .position(|group| begins(&self.editor.key(&["cluster", "group", &group.name])));
                group.map(Of::Group)
            }
            _ => Some(Of::All),
        }
    }

    /// Returns the amount of a key; `all` are the limits and choices of the scenario.
    fn scaled(&self, of: &Movable, all: &[Movable]) -> Scaled {
        let amount = if of.value.is_none() { self.amount(of) } else { None };
        let above = of.class.strip_suffix("page_cache.capacity");
        let memory = above.and_then(|above| {
            let class = format!("{above}memory");
            all.iter().find(|other| other.class == class && other.is_written).cloned()
        });
        Scaled { of: of.clone(), amount, memory }
    }

    /// Returns the overrides that multiply an amount, or change it as far as the scenario accepts; `None` if it accepts no change.
    fn accepted(&self, scaled: &Scaled, factor: f64) -> Option<Vec<Override>> {
        let first = scaled.times(factor)?;
        if self.source.with(&first).is_some() {
            return Some(first);
        }
        let factors = self.editor.factors(&scaled.of.key, factor, scaled.amount);
        let reading = (self.source.overrides, self.source.reading);
        let found = self.source.file.largest(reading, &factors, |factor| scaled.times(factor));
        found.map(|(changes, _)| changes)
    }

    /// Returns the overrides that remove each element of a list; and those that remove all of them, if there are several.
    fn unset_each(&self, of: &Movable) -> Vec<Vec<Override>> {
        let elements = self.editor.elements(&of.key);
        // Elements behind a removed one move up.
        let all: Vec<Override> = elements.iter().rev().map(Override::unset).collect();
        let mut each: Vec<Vec<Override>> =
            elements.iter().map(|key| vec![Override::unset(key)]).collect();
        if each.len() > 1 {
            each.push(all);
        }
        each
    }

    /// Returns levers that cut pipeline stages into chunks with the schedule that has several: neither key works without the other.
    fn interleaved(&self) -> Vec<Lever> {
        let split = self.described().parallelism.as_ref();
        let chunked = split.is_some_and(|of| matches!(of.schedule, Schedule::Interleaved { .. }));
        if chunked || split.is_none() {
            return Vec::new();
        }
        let key = |name: &str| format!("{}.parallel.pipeline.{name}", self.jobs[self.job]);
        let with = |chunks: i64| {
            let schedule = Override::new(key("schedule"), "interleaved-1f1b".into());
            let changes = vec![schedule, Override::new(key("chunks"), chunks.into())];
            self.source.with(&changes)?;
            let class = "job.parallel.pipeline.chunks".to_owned();
            let reach = rules::reach(&class);
            Some(Lever {
                class,
                changes,
                factor: None,
                owner: Of::Job(self.job),
                reach,
                scaled: None,
            })
        };
        [2, 4].into_iter().filter_map(with).collect()
    }

    /// Returns the lever that spreads the checkpoints of job copies on a shared storage over the time between two of them: the copies start
    /// one after another, or a job of one copy starts later; `None` if no other copy writes there.
    fn staggered(&self) -> Option<Lever> {
        let (scenario, job) = (self.scenario, self.described());
        let checkpoint = job.checkpoint.as_ref()?;
        if !scenario.storage[checkpoint.storage].path.is_remote()
            || job.arrivals != Arrivals::Regular
        {
            return None;
        }
        let writes = |of: &&Job| {
            of.checkpoint.as_ref().is_some_and(|other| other.storage == checkpoint.storage)
        };
        let copies = |jobs: &[Job]| jobs.iter().filter(writes).map(|job| job.copies).sum::<u32>();
        let (before, all) = (copies(&scenario.jobs[..self.job]), copies(&scenario.jobs));
        let interval = match checkpoint.every {
            Every::Seconds(seconds) => seconds,
            Every::Steps(steps) => steps as f64 * job.step.seconds(job.batch as f64),
        };
        let each = interval / f64::from(all.max(1));
        let (name, value) = match (all, job.copies) {
            (..=1, _) => return None,
            (_, 1) => ("start", job.start + each * f64::from(before.max(1))),
            (..) => ("stagger", job.stagger + each),
        };
        let value = Amount { value, unit: AmountUnit::Time }.written()?;
        let changes = vec![Override::new(format!("{}.{name}", self.jobs[self.job]), value)];
        let (class, reach) = (format!("job.{name}"), Reach::Stalls(&[Cause::Checkpoint]));
        let owner = Of::Job(self.job);
        Some(Lever { class, changes, factor: None, owner, reach, scaled: None })
    }

    /// Returns the amount that the scenario has at a key that the file leaves out, and whose value comes from a profile, a data sheet or
    /// another key; `None` if it is infinite or not a single amount.
    fn amount(&self, of: &Movable) -> Option<Amount> {
        use AmountUnit as U;
        let (cluster, job) = (&self.scenario.cluster, self.described());
        let node = &cluster.node;
        let cache = node.page_cache.as_ref();
        let (value, unit) = match of.class.as_str() {
            "cluster.network.nic" => (cluster.nic, U::Bandwidth),
            "cluster.network.storage_nic" => (cluster.storage_nic?, U::Bandwidth),
            "cluster.network.latency" => (cluster.latency, U::Time),
            "cluster.node.cores" => (node.usable_cores, U::Number),
            "cluster.node.pcie" => (node.pcie, U::Bandwidth),
            "cluster.node.memory_bandwidth" => (node.memory_bandwidth, U::Bandwidth),
            "cluster.node.gpu_memory_bandwidth" => (node.gpu_memory_bandwidth, U::Bandwidth),
            "cluster.node.intra.bandwidth" => (node.intra.bandwidth, U::Bandwidth),
            "cluster.node.page_cache.bandwidth" => (cache?.bandwidth, U::Bandwidth),
            "cluster.node.page_cache.capacity" => (cache?.capacity, U::Size),
            "job.model.step" if job.catalogue.is_none() => {
                (job.step.seconds(job.batch as f64), U::Time)
            }
            "job.checkpoint.pause" => (job.checkpoint.as_ref()?.pause, U::Time),
            "job.checkpoint.per_writer" => (job.checkpoint.as_ref()?.per_writer, U::Bandwidth),
            "job.checkpoint.bytes" => (job.checkpoint.as_ref()?.bytes, U::Size),
            _ if of.class.starts_with("storage.") => return self.amount_of_storage(of),
            _ if of.class.starts_with("job.sync.") => return self.amount_of_sync(of),
            _ => return None,
        };
        Amount { value, unit }.written().map(|_| Amount { value, unit })
    }

    fn amount_of_storage(&self, of: &Movable) -> Option<Amount> {
        use AmountUnit as U;
        let Some(Of::Storage(index)) = self.owner(of) else { return None };
        let Storage { path, writes, .. } = &self.scenario.storage[index];
        let (value, unit) = match of.class.rsplit('.').next()? {
            "bandwidth" => (path.bandwidth.most(), U::Bandwidth),
            "per_stream" | "per_connection" => (path.per_stream, U::Bandwidth),
            "per_client" => (path.per_client, U::Bandwidth),
            "write_per_stream" => (writes.per_stream?, U::Bandwidth),
            "write_per_client" => (writes.per_client?, U::Bandwidth),
            "operations" => (path.operations, U::Rate),
            "latency" => (path.latency.mean(), U::Time),
            "stripe_count" => (f64::from(path.targets?.stripe_count), U::Whole),
            _ => return None,
        };
        (value.is_finite() && value > 0.0).then_some(Amount { value, unit })
    }

    fn amount_of_sync(&self, of: &Movable) -> Option<Amount> {
        use AmountUnit as U;
        let sync = self.described().sync.as_ref()?;
        let (transport, bytes) =
            (&sync.transport, sync.buckets.iter().map(|bucket| bucket.bytes as f64).sum::<f64>());
        let (value, unit) = match of.class.rsplit('.').next()? {
            "gradients" | "parameters" => (bytes, U::Size),
            "latency" if of.class.contains(".transport.") => (transport.latency, U::Time),
            "latency_inside" => (transport.latency_inside, U::Time),
            "per_tensor" => (transport.per_tensor, U::Time),
            "per_stream" => (transport.per_stream, U::Bandwidth),
            "per_stream_inside" => (transport.per_stream_inside, U::Bandwidth),
            "sum" => (transport.sum, U::Bandwidth),
            _ => return None,
        };
        (value.is_finite() && value > 0.0).then_some(Amount { value, unit })
    }
}
