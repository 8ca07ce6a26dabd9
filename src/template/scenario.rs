//! A first scenario.

use super::choice::{DATASETS, LOADERS, STORAGES, find};
use super::refusal::{Refused, Trial};
use super::storage::{NodeMemory, dataset, of_checkpoints, storage};
use super::sweep::{of_sequences, with_swept};
use super::training::{Layout, Room, Spread, is_per_rank, loader, loaders_of};
use super::workload::{self, Workload};
use super::{TemplateError, aligned, models, quoted};
use crate::catalogue::{self, GPUS, Gpu, interconnect};
use crate::scenario::{Job, Override, ScenarioFile, choose};

/// Steps of an epoch at least, by MLPerf Storage's rules.
const RULED_STEPS: u64 = 500;

/// Answers from which a scenario is written; [`ScenarioAnswers::default`] has the default answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioAnswers {
    /// Name of the scenario; `MODEL-STORAGE` if not given.
    pub name: Option<String>,
    /// Name of the loader, from [`LOADERS`].
    pub loader: String,
    /// Name of the storage, from [`STORAGES`].
    pub storage: String,
    /// Number of GPUs in each node.
    pub gpus: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Name of the GPU type, from the catalogue of GPUs.
    pub gpu: String,
    /// Name of the model, from [`models`].
    pub model: String,
    /// Name of the data set, from [`DATASETS`]; if not given, that of MLPerf Storage for its workloads, `tokens` for a model that
    /// works on sequences, otherwise `imagenet`.
    pub dataset: Option<String>,
    /// Batch size [samples] for each model replica; if not given, that of MLPerf Storage for its workloads, otherwise the largest
    /// that fits, up to 64 images or 8 sequences.
    pub batch: Option<u64>,
    /// Loader workers on each node, a multiple of the model replicas of a node for loaders that each replica has; if not given, four
    /// for each model replica for workloads of MLPerf Storage, otherwise eight.
    pub workers: Option<u64>,
}

impl Default for ScenarioAnswers {
    fn default() -> ScenarioAnswers {
        ScenarioAnswers {
            name: None,
            loader: "pytorch".to_owned(),
            storage: "nfs".to_owned(),
            gpus: 8,
            nodes: 1,
            gpu: "a100-sxm4-80gb".to_owned(),
            model: "resnet50".to_owned(),
            dataset: None,
            batch: None,
            workers: None,
        }
    }
}

/// The answers, with names resolved to choices and entries of the catalogue.
struct ResolvedAnswers<'a> {
    answers: &'a ScenarioAnswers,
    loader: &'static str,
    storage: &'static str,
    dataset: &'static str,
    gpu: &'static Gpu,
    model: Workload,
}

impl ScenarioAnswers {
    /// Checks that a model has this name, and returns the name.
    ///
    /// # Errors
    /// If no model has the name. The message contains the most similar name.
    pub fn check_model(name: &str) -> Result<&'static str, TemplateError> {
        known_model(name).map(|model| model.name())
    }

    /// Returns the GPU of this name.
    ///
    /// # Errors
    /// If the catalogue has no such GPU. The message contains the most similar name.
    pub fn check_gpu(name: &str) -> Result<&'static Gpu, TemplateError> {
        let names: Vec<&str> = GPUS.iter().map(|gpu| gpu.name).collect();
        catalogue::gpu(name).ok_or_else(|| {
            TemplateError(format!("there is no GPU `{name}`: {}", choose(name, &names)))
        })
    }

    /// Returns the data set for a model if the user names none.
    #[must_use]
    pub fn usual_dataset(model: &str) -> &'static str {
        workload::find(model).map_or("imagenet", |model| model.usual_dataset())
    }

    /// Returns the text of the scenario. Tries the ways to spread the model over GPUs from the best on, each with batches from the
    /// usual one downwards, and takes the first combination that fits.
    ///
    /// # Errors
    /// If an answer is unknown, the model does not fit into the GPUs in any way, or loaders cannot share the workers equally.
    pub fn text(&self) -> Result<String, TemplateError> {
        let known = self.look_up()?;
        let (usual, room) = (known.model.usual_batch(), known.room());
        let mut refused: Vec<Refused> = Vec::new();
        // Ways in which the states of the model alone do not fit: smaller batches and shorter samples do not help.
        let mut hopeless: Vec<Spread> = Vec::new();
        for (tokens, spread) in known.ways() {
            if hopeless.contains(&spread) {
                continue;
            }
            let attempt = |batch: u64| known.attempt(Trial { spread, batch, tokens });
            let finished = |text: String| {
                known.check_workers(spread.layout(room, 1, "").copies).map(|()| text)
            };
            let batches =
                self.batch.map_or_else(|| spread.batches(usual, room), |batch| vec![batch]);
            let Some((first, smaller)) = batches.split_first() else { continue };
            match attempt(*first) {
                Ok(text) => return finished(text),
                Err(why) => {
                    if why.states_fit(known.gpu) == Some(false) {
                        hopeless.push(spread);
                    }
                    refused.push(why);
                }
            }
            // If the smallest batch does not fit, none does.
            match smaller.last().filter(|_| !hopeless.contains(&spread)).map(|last| attempt(*last))
            {
                Some(Ok(smallest)) => {
                    let larger = smaller.iter().find_map(|batch| attempt(*batch).ok());
                    return finished(larger.unwrap_or(smallest));
                }
                Some(Err(why)) => refused.push(why),
                None => {}
            }
        }
        Err(self.refusal(&refused, known.least(), (known.gpu, room)))
    }

    fn look_up(&self) -> Result<ResolvedAnswers<'_>, TemplateError> {
        let range = |what: &str, value: u64, most: u64| match value {
            0 => Err(TemplateError(format!("{what} is 0: write a whole number from 1 to {most}"))),
            value if value > most => Err(TemplateError(format!(
                "{what} is {value}: write a whole number from 1 to {most}"
            ))),
            _ => Ok(()),
        };
        if let Some(name) = self
            .name
            .as_ref()
            .filter(|name| name.trim().is_empty() || name.contains(char::is_control))
        {
            let what = format!("--name is {name:?}: write a name on one line");
            return Err(TemplateError(what));
        }
        range("--gpus", self.gpus, 64)?;
        range("--nodes", self.nodes, 100_000)?;
        range("--batch", self.batch.unwrap_or(1), 1_000_000)?;
        range("--workers", self.workers.unwrap_or(1), 10_000)?;
        let model = known_model(&self.model)?;
        let usual = model.usual_dataset();
        Ok(ResolvedAnswers {
            answers: self,
            loader: find("loader", &LOADERS, &self.loader)?.name,
            storage: find("storage", &STORAGES, &self.storage)?.name,
            dataset: find("data set", &DATASETS, self.dataset.as_deref().unwrap_or(usual))?.name,
            gpu: ScenarioAnswers::check_gpu(&self.gpu)?,
            model,
        })
    }
}

/// Shortest sequences that are tried where longer ones do not fit [tokens].
const SHORTEST: u64 = 1024;

/// Returns the model of this name, or an error with the most similar name.
fn known_model(name: &str) -> Result<Workload, TemplateError> {
    workload::find(name).ok_or_else(|| {
        TemplateError(format!("there is no model `{name}`: {}", choose(name, &models())))
    })
}

/// Checks that the reader of scenarios accepts a text, and that the model leaves some of the GPU's memory free unless its state is kept in
/// the node's memory.
fn accepted(text: &str, gpu: &Gpu, spread: Spread) -> Result<(), Refused> {
    let file =
        ScenarioFile::parse("the new scenario", text.to_owned()).map_err(Refused::Problems)?;
    if let Some(part) = spread.part_of_memory() {
        // With memory for everything, so that the reader does not look for changes that help.
        let plenty = "cluster.node.gpu_memory=1e18 B".parse::<Override>();
        let scenario = plenty.and_then(|plenty| file.resolve(&[plenty]));
        let held = scenario.map_err(Refused::Problems)?.jobs.first().and_then(Job::footprint);
        let held = held.filter(|held| held.total() > part * gpu.memory);
        if let Some(held) = held {
            return Err(Refused::TooLarge { needed: held.total(), activations: held.activations });
        }
    }
    file.resolve(&[]).map(drop).map_err(Refused::Problems)
}

impl ResolvedAnswers<'_> {
    fn room(&self) -> Room {
        let ScenarioAnswers { gpus, nodes, .. } = *self.answers;
        Room { gpus, nodes, heads: self.model.heads() }
    }

    /// Returns the tokens of a sample to try, the most first; only `None` for a model that does not work on sequences.
    fn lengths(&self) -> Vec<Option<u64>> {
        match self.model.tokens() {
            Some(tokens) => (0..6)
                .map(|power| tokens >> power)
                .filter(|length| *length >= SHORTEST || *length == tokens)
                .map(Some)
                .collect(),
            None => vec![None],
        }
    }

    /// Returns the scenario of a trial, or why it is not accepted.
    fn attempt(&self, trial: Trial) -> Result<String, Refused> {
        let Trial { spread, batch, tokens } = trial;
        let layout = spread.layout(self.room(), batch, self.model.sync());
        let text = self.text((batch, tokens), &layout, spread == Spread::OutOfCore);
        accepted(&text, self.gpu, spread)?;
        let axes = tokens.map(|_| of_sequences(batch, &layout));
        Ok(with_swept(text, &axes.unwrap_or_default()))
    }

    /// Returns the splits with the smallest batch and the shortest samples, each with the reason if it is not accepted.
    fn least(&self) -> Vec<(Trial, Option<Refused>)> {
        let tokens = self.lengths().pop().flatten();
        let [ways, waiting, _] = Spread::ways(self.model.parameters(), self.room(), Some(1));
        ways.into_iter()
            .chain(waiting)
            .map(|spread| {
                let trial = Trial { spread, batch: 1, tokens };
                (trial, self.attempt(trial).err())
            })
            .collect()
    }

    /// Checks that the workers of a node can be divided among the loaders of its `replicas`.
    fn check_workers(&self, replicas: u64) -> Result<(), TemplateError> {
        match self.answers.workers {
            Some(workers) if is_per_rank(self.loader) && !workers.is_multiple_of(replicas) => {
                Err(TemplateError(format!(
                    "--workers is {workers}, and `{}` divides the workers of a node among its {replicas} loaders: write a multiple \
                     of {replicas}, such as {}",
                    self.loader,
                    workers.next_multiple_of(replicas)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the ways to try to spread the model, the best first, each with the tokens of a sample for a model on sequences: those
    /// that the model was trained with or, where no split fits, fewer.
    fn ways(&self) -> Vec<(Option<u64>, Spread)> {
        let (usual, lengths) = (self.model.tokens(), self.lengths());
        let [good, waiting, last] =
            Spread::ways(self.model.parameters(), self.room(), self.answers.batch);
        let of_each_length = |ways: Vec<Spread>| {
            lengths
                .iter()
                .flat_map(move |length| ways.clone().into_iter().map(|way| (*length, way)))
        };
        let last = last.into_iter().map(|way| (usual, way));
        of_each_length(good).chain(of_each_length(waiting)).chain(last).collect()
    }

    fn text(
        &self,
        (batch, tokens): (u64, Option<u64>),
        layout: &Layout,
        out_of_core: bool,
    ) -> String {
        let ScenarioAnswers { gpus, nodes, .. } = *self.answers;
        let ResolvedAnswers { storage: from, dataset: data, .. } = self;
        let name =
            self.answers.name.clone().unwrap_or_else(|| format!("{}-{from}", self.model.name()));
        let mut read = dataset(data, tokens.unwrap_or(2048));
        // MLPerf Storage asks for so many steps in an epoch.
        let fewest = if self.model.is_emulated() { RULED_STEPS * batch * gpus * nodes } else { 0 };
        read.samples = read.samples.max(fewest);
        let on_node = self.answers.workers.unwrap_or(self.model.usual_workers() * layout.copies);
        let cores = (16 * gpus).max(on_node);
        let why_cores = match cores == 16 * gpus {
            true => "16 for each GPU, as in a DGX A100",
            false => "one for each loader worker",
        };
        let workers = match is_per_rank(self.loader) {
            true => on_node.div_ceil(layout.copies),
            false => on_node,
        };
        let decode = read.decode.filter(|_| !self.model.is_emulated());
        let (loader, swept) = loader(self.loader, workers, decode, batch * layout.copies);
        let loader = loader + &self.model.epoch_start(self.loader);
        let loaders = loaders_of(self.loader, layout.copies);
        let Layout { keys: spread, tables: pipeline, .. } = layout;
        let pcie = if out_of_core { to_host(self.gpu) } else { String::new() };
        // Machines whose GPUs have NVLink usually have a NIC for each GPU.
        let nvlink = self.gpu.nvlink.is_some() && !self.model.is_emulated();
        let nics = match nodes > 1 && gpus > 1 && nvlink {
            true => format!("nics = {gpus} # gradients use all of them, reads the first one\n"),
            false => String::new(),
        };
        let checkpoint = match self.model.tokens() {
            Some(_) => checkpoints(from),
            None => String::new(),
        };
        let intra = if gpus == 1 { String::new() } else { between_gpus(self.gpu) };
        let local = ["nvme", "hdd", "memory"].contains(from);
        // Synthetic data are not read.
        let network = match nodes == 1 && (local || self.loader == "in-memory") {
            true => "",
            false => {
                "[cluster.network]\nnic = \"200 Gbit/s\" # of each NIC, in each direction: as in a DGX A100\nlatency = \"5 us\"\n"
            }
        };
        let sweep = match swept {
            Some(key) => format!(
                "\"{key}\" = [{}, {}, {}, {}]\n",
                (workers / 4).max(1),
                (workers / 2).max(1) + u64::from(workers < 4),
                workers.max(3),
                2 * workers.max(2)
            ),
            None => format!("\"job.batch\" = [{}, {batch}]\n", (batch / 2).max(1)),
        };
        let node = NodeMemory::of(&read, gpus, *from == "memory");
        let memory = format!("memory = \"{} GiB\"", node.gibibytes);
        let (memory, memory_of_workers) = match self.model.is_emulated() {
            true => (
                format!(
                    "# {memory} # would cache files; MLPerf Storage's data sets are five times as large\n"
                ),
                "",
            ),
            false => (
                format!("{memory} # {}\n", node.why),
                "# worker_memory = \"1 GiB\" # of each loader worker, 0 if not written: less is left to cache files\n",
            ),
        };
        let text = format!(
            "# Do {} starve on `{from}` while {} train `{}` on `{data}`?\n\
             #\n\
             # Written by `forebay new`: replace its numbers by yours; those without a source are guesses. `forebay reference` explains all keys.\n\
             #   forebay run FILE                    how fast, what it waits for, what to change\n\
             #   forebay sweep FILE                  the same for each value under [sweep]\n\
             name = {}\n\
             # profile = \"calibration/profile.toml\" # what `forebay calibrate` measured: defaults for what is not written here\n\
             \n\
             [run] # without `steps` or `epochs`: until the throughput is known to 0.5 %\n\
             # steps = 500\n\
             # epochs = 2 # to see the second epoch read from the page cache\n\
             # replications = 1 # with `steps` or `epochs` there are 5 if nothing is written\n\
             \n\
             [cluster]\n\
             nodes = {nodes}\n\
             [cluster.node]\n\
             cores = {cores} # {why_cores}\n\
             gpus = {gpus}\n\
             gpu = \"{}\"\n\
             {memory}\
             {pcie}{nics}{intra}\
             {network}\
             \n\
             {}\
             \n\
             [dataset.{data}]\n\
             {}\
             \n\
             [[job]]\n\
             name = {}\n\
             nodes = {nodes}\n\
             dataset = \"{data}\"\n\
             storage = \"{from}\"\n\
             batch = {batch} # samples, for each copy of the model and step\n\
             {memory_of_workers}{spread}{loaders}{pipeline}\
             \n\
             {loader}\
             \n\
             {}{checkpoint}\
             \n\
             [sweep] # only `forebay sweep` reads it\n\
             {sweep}",
            counted(gpus * nodes, "GPU"),
            if gpus * nodes == 1 { "it" } else { "they" },
            self.model.name(),
            quoted(&name),
            self.gpu.name,
            storage(from),
            read.text(node.samples),
            quoted(self.model.name()),
            self.model.table(self.gpu, tokens, out_of_core),
        );
        aligned(&text)
    }
}

/// Returns the commented tables of checkpoints and failures of a job whose data are on the storage with this main name.
fn checkpoints(from: &str) -> String {
    let (to, table) = of_checkpoints(from);
    format!(
        "\n# [job.checkpoint] # state that is written, to go on from there after a failure\n\
         # interval = \"30 min\" # from when training goes on after a checkpoint until the next\n\
         # storage = \"{to}\"\n\
         # asynchronous = true # the job trains while it is written, after a pause to copy it aside\n\
         # pause = \"2 s\"\n\
         # [job.failures] # of nodes: what is lost, and how often a checkpoint should be written\n\
         # mtbf = \"5000 h\" # of each node\n\
         # restart = \"10 min\"\n\
         # read_back = true # each rank reads what its GPU holds before the job goes on\n\
         {table}"
    )
}

/// Returns the bandwidth of `count` links [GB/s], to a tenth.
fn gigabytes(link: &str, count: u32) -> f64 {
    let bandwidth = interconnect(link).map_or(0.0, |link| link.bandwidth) * f64::from(count);
    (bandwidth / 1e8).round() / 10.0
}

/// Returns the key for the link between a GPU and its host, from the data sheet of the GPU.
fn to_host(gpu: &Gpu) -> String {
    let gigabytes = gigabytes(gpu.host_link, 1);
    format!("pcie = \"{gigabytes} GB/s\" # host to device, for each GPU: {}\n", gpu.host_link)
}

/// Returns the key for the links between the GPUs of a node, from the data sheet of the GPU.
fn between_gpus(gpu: &Gpu) -> String {
    let (link, count) = gpu.nvlink.unwrap_or((gpu.host_link, 1));
    let gigabytes = gigabytes(link, count);
    let links = if count == 1 { link.to_owned() } else { format!("{count} {link}") };
    format!(
        "intra = {{ kind = \"switch\", bandwidth = \"{gigabytes} GB/s\", latency = \"5 us\" }} # between the GPUs of a node: {links}\n"
    )
}

/// Returns a number with its noun: `1 GPU`, `8 GPUs`.
pub(super) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
