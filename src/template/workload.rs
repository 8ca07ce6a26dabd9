//! What a first scenario trains: a model of the catalogue, or a workload of MLPerf Storage.

use super::shares;
use crate::catalogue::{self, Gpu, Input, Model, Precision};
use crate::import::dlio::{beside, pytorch_start, tensorflow_start};

/// A workload of MLPerf Storage, which waits for the time of a step in place of computing it, and exchanges no gradients.
#[derive(Debug, PartialEq)]
pub(super) struct Emulated {
    name: &'static str,
    /// Main name of the data set.
    dataset: &'static str,
    /// Batch size [samples] of the rules.
    batch: u64,
    /// Time of a step by the rules [s], by the beginning of the GPU's name; other GPUs take that of the last.
    steps: &'static [(&'static str, f64)],
}

impl Emulated {
    /// Returns the time of a step by the rules [s], and the GPU that it is of.
    fn step(&self, gpu: &Gpu) -> (f64, &'static str) {
        let own = self.steps.iter().find(|(name, _)| gpu.name.starts_with(name));
        own.or(self.steps.last()).map_or((0.0, ""), |(name, step)| (*step, *name))
    }
}

/// Workloads of MLPerf Storage, in the versions whose rules `scenarios/mlperf-*.toml` have.
const EMULATED: [Emulated; 2] = [
    Emulated {
        name: "unet3d",
        dataset: "kits19",
        batch: 7,
        steps: &[("a100", 0.636), ("b200", 0.162), ("h100", 0.323)],
    },
    Emulated {
        name: "cosmoflow",
        dataset: "cosmoflow",
        batch: 1,
        steps: &[("a100", 5.51e-3), ("h100", 3.5e-3)],
    },
];

/// What is trained.
pub(super) enum Workload {
    /// A model whose layers are in the catalogue.
    Layers(Model),
    /// A workload whose time is given.
    Emulated(&'static Emulated),
}

/// Returns the names of everything that can be trained.
pub(super) fn names() -> Vec<&'static str> {
    catalogue::MODELS.iter().copied().chain(EMULATED.iter().map(|of| of.name)).collect()
}

/// Returns the workload of this name.
pub(super) fn find(name: &str) -> Option<Workload> {
    let emulated = || EMULATED.iter().find(|of| of.name == name).map(Workload::Emulated);
    catalogue::model(name).map(Workload::Layers).or_else(emulated)
}

impl Workload {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Workload::Layers(model) => model.name,
            Workload::Emulated(of) => of.name,
        }
    }

    /// Returns the number of parameters; 0 if it is not known, and nothing is split.
    pub(super) fn parameters(&self) -> u64 {
        match self {
            Workload::Layers(model) => model.parameters(),
            Workload::Emulated(_) => 0,
        }
    }

    /// Returns the heads of keys and values of the model's attention; 0 for a model without attention.
    pub(super) fn heads(&self) -> u64 {
        match self {
            Workload::Layers(model) => model.layers.iter().map(|of| of.heads).max().unwrap_or(0),
            Workload::Emulated(_) => 0,
        }
    }

    /// Whether the time of a step is waited for and not computed from layers.
    pub(super) fn is_emulated(&self) -> bool {
        matches!(self, Workload::Emulated(_))
    }

    /// Returns the tokens of a sample for a model that works on sequences; `None` for other models.
    pub(super) fn tokens(&self) -> Option<u64> {
        match self {
            Workload::Layers(Model { input: Input::Tokens(tokens), .. }) => Some(*tokens),
            Workload::Layers(_) | Workload::Emulated(_) => None,
        }
    }

    /// Returns the data set if the user names none.
    pub(super) fn usual_dataset(&self) -> &'static str {
        match self {
            Workload::Emulated(of) => of.dataset,
            Workload::Layers(_) if self.tokens().is_some() => "tokens",
            Workload::Layers(_) => "imagenet",
        }
    }

    /// Returns the batch size if the user names none and the model's memory allows it [samples].
    pub(super) fn usual_batch(&self) -> u64 {
        match self {
            Workload::Emulated(of) => of.batch,
            Workload::Layers(_) if self.tokens().is_some() => 8,
            Workload::Layers(_) => 64,
        }
    }

    /// Returns the number of loader workers for each GPU if the user names none.
    pub(super) fn usual_workers(&self) -> u64 {
        if self.is_emulated() { 4 } else { 8 }
    }

    /// Returns the keys of a loader for the beginning of epochs, where official results of the workload tell them.
    pub(super) fn epoch_start(&self, loader: &str) -> String {
        match (self, loader) {
            (Workload::Emulated(_), "pytorch") => pytorch_start(None),
            (Workload::Emulated(of), "tf-data") => tensorflow_start(of.name, None),
            _ => String::new(),
        }
    }

    /// Returns the key that says how model replicas exchange gradients, or a comment that they do not.
    pub(super) fn sync(&self) -> &'static str {
        match self {
            // The gradients of a large model fill several of PyTorch's buckets.
            Workload::Layers(model) if model.parameters() > 20_000_000 => {
                "sync.allreduce = { buckets = \"25 MiB\", transport.nccl = {} } # gradients by RDMA, while backward goes on\n"
            }
            Workload::Layers(_) => {
                "sync.allreduce.transport.nccl = {} # gradients by RDMA, while backward goes on\n"
            }
            Workload::Emulated(_) => {
                "# without `sync`: replicas wait for each other at each step and exchange nothing\n"
            }
        }
    }

    /// Returns the table of the model, trained on a GPU, with samples of `tokens` tokens if it works on sequences.
    pub(super) fn table(&self, gpu: &Gpu, tokens: Option<u64>, out_of_core: bool) -> String {
        match self {
            Workload::Layers(model) => {
                let optimizer = if self.tokens().is_some() { "adam" } else { "momentum" };
                let fewer = tokens.filter(|tokens| Some(*tokens) != self.tokens());
                let sequence = fewer.map_or_else(String::new, |tokens| {
                    format!(
                        "sequence = {tokens} # longer ones do not fit: all activations are kept, none is recomputed\n"
                    )
                });
                layers(model, optimizer, gpu, out_of_core) + &sequence
            }
            Workload::Emulated(of) => {
                let (step, name) = of.step(gpu);
                let launch = beside(of.name, step).map_or_else(String::new, |(beside, source)| {
                    format!("launch = {} # beside computing: {source}\n", beside.launch())
                });
                let sample = (1e6 * step / of.batch as f64).round() / 1e3;
                format!(
                    "[job.model]\nstep = {{ per_sample = \"{sample} ms\" }} # on an {}, by MLPerf Storage's rules\n{launch}",
                    name.to_uppercase()
                )
            }
        }
    }
}

/// Returns the table of a model whose layers are known.
fn layers(model: &Model, optimizer: &str, gpu: &Gpu, out_of_core: bool) -> String {
    let reached = shares::reached(model, gpu);
    let precision = reached.map_or(Precision::Fp32, |of| of.precision).name();
    let time = reached.and_then(|of| of.time(model, gpu));
    let rate = match (&reached, time) {
        // A share above the peak is not an efficiency.
        (Some(of), Some(time)) if of.share > 1.0 => {
            format!("step = {{ per_sample = \"{} ms\" }} # {}", significant(1e3 * time), of.said())
        }
        (Some(of), _) => format!("efficiency = {} # {}", significant(of.share), of.said()),
        (None, _) => "efficiency = 0.3 # share of the peak: a guess".to_owned(),
    };
    let swap = if out_of_core {
        "out_of_core = true # what does not fit is in the node's memory\n"
    } else {
        ""
    };
    format!(
        "[job.model]\ncatalogue = \"{}\"\nprecision = \"{precision}\"\noptimizer = \"{optimizer}\"\n\
         {rate}\n\
         # or, as measured: step = {{ fixed = \"3 ms\", per_sample = \"2 ms\" }}\n{swap}",
        model.name
    )
}

/// Returns a positive number with three significant digits.
fn significant(number: f64) -> String {
    let digits = (2.0 - number.log10().floor()).max(0.0);
    format!("{number:.*}", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_times_are_written_with_three_significant_digits() {
        for (number, text) in [(0.000_164_2, "0.000164"), (0.4816, "0.482"), (6.4935, "6.49")] {
            assert_eq!(significant(number), text);
        }
        assert_eq!(significant(154.2), "154");
    }

    #[test]
    fn models_above_the_peak_have_a_step_and_others_an_efficiency() {
        let table = |model: &str, gpu: &str| {
            let gpu = catalogue::gpu(gpu).expect("a GPU");
            find(model).expect("a model").table(gpu, None, false)
        };
        // 154 images/s.
        let text = table("vgg16", "p100-sxm2");
        assert!(text.contains("step = { per_sample = \"6.49 ms\" }"), "{text}");
        assert!(text.contains("share of the peak, from 154 samples/s"), "{text}");
        assert!(!text.contains("\nefficiency"), "{text}");
        let text = table("lenet5", "h100-sxm5");
        assert!(text.contains("\nefficiency = 0.0001") && text.contains("eager"), "{text}");
        let text = table("llama3-70b", "h100-sxm5");
        let whole = "share of a whole run, exchanges included: forebay adds its own";
        assert!(text.contains("efficiency = 0.568") && text.contains(whole), "{text}");
        assert!(!table("llama2-7b", "h100-sxm5").contains("whole run"));
    }
}
