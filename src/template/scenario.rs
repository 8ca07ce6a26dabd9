//! A first scenario.

use super::choice::{DATASETS, LOADERS, STORAGES, find};
use super::storage::{dataset, of_checkpoints, storage};
use super::sweep::{of_sequences, with_swept};
use super::training::{Spread, loader};
use super::workload::{self, Workload};
use super::{TemplateError, aligned, models, quoted};
use crate::catalogue::{self, GPUS, Gpu, interconnect};
use crate::scenario::{Problems, ScenarioFile, choose};

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
    /// Loader workers on each node; if not given, four for each GPU for workloads of MLPerf Storage, otherwise eight.
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

    /// Returns the text of the scenario. Tries the ways to spread the model over GPUs from the simplest on, each with batches
    /// from the usual one downwards, and takes the first combination that fits.
    ///
    /// # Errors
    /// If an answer is unknown, or the model does not fit into the GPUs in any way.
    pub fn text(&self) -> Result<String, TemplateError> {
        let known = self.look_up()?;
        let usual = known.model.usual_batch();
        let halves = (0..7).map(|power| usual >> power).filter(|batch| *batch > 0);
        let batches: Vec<u64> = self.batch.map_or_else(|| halves.collect(), |batch| vec![batch]);
        let mut refused: Vec<Problems> = Vec::new();
        for spread in Spread::ALL {
            for batch in &batches {
                let Some(lines) = spread.text((self.gpus, self.nodes), *batch, known.model.sync())
                else {
                    continue;
                };
                let text = known.text(*batch, &lines, spread == Spread::OutOfCore);
                match accepted(&text) {
                    Ok(()) => {
                        let axes = known.model.tokens().map(|_| of_sequences(*batch, &lines));
                        return Ok(with_swept(text, &axes.unwrap_or_default()));
                    }
                    Err(problems) => refused.push(problems),
                }
            }
        }
        Err(self.refusal(&refused))
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

/// Returns the model of this name, or an error with the most similar name.
fn known_model(name: &str) -> Result<Workload, TemplateError> {
    workload::find(name).ok_or_else(|| {
        TemplateError(format!("there is no model `{name}`: {}", choose(name, &models())))
    })
}

/// Checks that the reader of scenarios accepts a text.
fn accepted(text: &str) -> Result<(), Problems> {
    ScenarioFile::parse("the new scenario", text.to_owned())?.resolve(&[]).map(drop)
}

impl ResolvedAnswers<'_> {
    fn text(&self, batch: u64, spread: &str, out_of_core: bool) -> String {
        let ScenarioAnswers { gpus, nodes, .. } = *self.answers;
        let ResolvedAnswers { storage: from, dataset: data, .. } = self;
        let name =
            self.answers.name.clone().unwrap_or_else(|| format!("{}-{from}", self.model.name()));
        let read = dataset(data, self.model.tokens().unwrap_or(2048));
        let workers = self.answers.workers.unwrap_or(self.model.usual_workers() * gpus);
        let decode = read.decode.filter(|_| !self.model.is_emulated());
        let (loader, swept) = loader(self.loader, workers, decode, batch * gpus);
        let cores = (16 * gpus).max(workers);
        let pcie =
            if out_of_core { "pcie = \"25 GB/s\" # host to device, for each GPU\n" } else { "" };
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
        let network = match nodes == 1 && local {
            true => "",
            false => {
                "[cluster.network]\nnic = \"200 Gbit/s\" # of each NIC, in each direction\nlatency = \"5 us\"\n"
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
        let memory = format!("memory = \"{} GiB\"", 128 * gpus);
        let (memory, memory_of_workers) = match self.model.is_emulated() {
            true => (
                format!(
                    "# {memory} # would cache files; MLPerf Storage's data sets are five times as large\n"
                ),
                "",
            ),
            false => (
                format!("{memory} # what is left of it caches the files that were read\n"),
                "# worker_memory = \"1 GiB\" # of each loader worker, 0 if not written: less is left to cache files\n",
            ),
        };
        let text = format!(
            "# Do {} starve on `{from}` while {} train `{}` on `{data}`?\n\
             #\n\
             # Written by `forebay new`; every number is a guess to be replaced by yours. `forebay reference` explains all keys.\n\
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
             cores = {cores}\n\
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
             {memory_of_workers}{spread}\
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
            read.text,
            quoted(self.model.name()),
            self.model.table(self.gpu, out_of_core),
        );
        aligned(&text)
    }
}

/// Returns the commented tables of checkpoints and failures of a job whose data are on the storage with this main name.
fn checkpoints(from: &str) -> String {
    let (to, table) = of_checkpoints(from);
    format!(
        "\n# [job.checkpoint] # state that is written, to go on from there after a failure\n\
         # interval = \"30 min\" # from the end of one checkpoint until the next\n\
         # storage = \"{to}\"\n\
         # asynchronous = true # the job trains while it is written, after a pause to copy it aside\n\
         # pause = \"2 s\"\n\
         # [job.failures] # of nodes: what is lost, and how often a checkpoint should be written\n\
         # mtbf = \"5000 h\" # of each node\n\
         # restart = \"10 min\"\n\
         # read_back = true # each node reads its part of the checkpoint before the job goes on\n\
         {table}"
    )
}

/// Returns the key for the links between the GPUs of a node, from the data sheet of the GPU.
fn between_gpus(gpu: &Gpu) -> String {
    let (link, count) = gpu.nvlink.unwrap_or((gpu.host_link, 1));
    let bandwidth = interconnect(link).map_or(0.0, |link| link.bandwidth) * f64::from(count);
    let gigabytes = (bandwidth / 1e8).round() / 10.0;
    let links = if count == 1 { link.to_owned() } else { format!("{count} {link}") };
    format!(
        "intra = {{ kind = \"switch\", bandwidth = \"{gigabytes} GB/s\", latency = \"5 us\" }} # between the GPUs of a node: {links}\n"
    )
}

/// Returns a number with its noun: `1 GPU`, `8 GPUs`.
fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_too_large_for_one_gpu_are_split_across_gpus() {
        let model = "llama2-70b".to_owned();
        let large = ScenarioAnswers { model, nodes: 8, ..ScenarioAnswers::default() };
        let text = large.text().expect("a scenario");
        let spread = ["parallel.zero.stage = 3", "parallel.tensor", "parallel.pipeline"];
        assert!(spread.iter().any(|of| text.contains(of)), "{text}");
        let small = ScenarioAnswers::default().text().expect("a scenario");
        assert!(small.contains("batch = 64") && !small.contains("zero"), "{small}");
    }

    #[test]
    fn workloads_of_mlperf_storage_have_its_data_set_batch_and_step() {
        // System: U-Net3D by the rules of MLPerf Storage: batches of 7 files of 147 MB, 0.323 s a step on an H100. Expectation:
        // the scenario has that step, neither decoding nor gradients, and another batch takes as long for each sample.
        let scenario = |batch| {
            let model = "unet3d".to_owned();
            let text = ScenarioAnswers { model, batch, ..ScenarioAnswers::default() }.text();
            let text = text.expect("a scenario");
            let file = ScenarioFile::parse("new.toml", text).expect("a file");
            file.resolve(&[]).expect("a scenario")
        };
        let usual = scenario(None);
        let job = &usual.jobs[0];
        assert_eq!((usual.datasets[0].name.as_str(), job.batch), ("kits19", 7));
        assert!((job.step.seconds(7.0) - 0.323).abs() < 1e-5, "{}", job.step.seconds(7.0));
        assert!(job.sync.is_none() && usual.remarks.is_empty(), "{:?}", usual.remarks);
        assert!(usual.cluster.node.page_cache.is_none(), "every epoch reads from the storage");
        assert!((scenario(Some(14)).jobs[0].step.seconds(14.0) - 0.646).abs() < 2e-5);
    }

    #[test]
    fn templates_say_the_memory_of_workers_and_what_the_nics_of_a_node_carry() {
        let two = ScenarioAnswers { nodes: 2, ..ScenarioAnswers::default() };
        let text = two.text().expect("a scenario");
        let line = |key: &str| text.lines().find(|line| line.contains(key)).unwrap_or_default();
        assert!(
            line("nics =").contains("gradients use all of them, reads the first one"),
            "{text}"
        );
        let memory = line("worker_memory").trim_start_matches("# ");
        let written = text.replace(line("worker_memory"), memory);
        let file = ScenarioFile::parse("new.toml", written).expect("a file");
        assert_eq!(
            file.resolve(&[]).expect("a scenario").jobs[0].worker_memory,
            f64::from(1 << 30)
        );
    }

    #[test]
    fn impossible_answers_for_a_scenario_template_are_refused_with_a_remedy() {
        let with = |change: fn(&mut ScenarioAnswers)| {
            let mut answers = ScenarioAnswers::default();
            change(&mut answers);
            answers.text().expect_err("refused").to_string()
        };
        assert!(with(|of| of.model = "resnet5".to_owned()).contains("did you mean `resnet50`?"));
        assert!(with(|of| of.gpu = "a100".to_owned()).contains("did you mean `a100"));
        assert!(with(|of| of.gpus = 0).contains("--gpus is 0: write a whole number from 1 to 64"));
        let one =
            with(|of| (of.model, of.gpus, of.batch) = ("resnet50".to_owned(), 1, Some(1_000_000)));
        assert!(one.contains("a smaller --batch"), "{one}");
    }
}
