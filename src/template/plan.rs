//! A first plan of calibration.

use super::TemplateError;
use super::choice::{Choice, find};
use crate::probe::Plan;

/// Probes, with what they measure.
pub const PROBES: [Choice; 9] = [
    Choice { name: "clock", also: &[], about: "the clock itself, which is subtracted" },
    Choice { name: "host", also: &["memory"], about: "copies of memory by several threads" },
    Choice { name: "queue", also: &[], about: "the hand-over of samples from workers to trainers" },
    Choice {
        name: "read",
        also: &["storage", "disk"],
        about: "reads of files: latency, bandwidth, operations",
    },
    Choice { name: "decode", also: &["jpeg"], about: "decoding of JPEG images on cores" },
    Choice { name: "step", also: &["training"], about: "training steps, by batch" },
    Choice { name: "cache", also: &["page-cache"], about: "what the page cache keeps" },
    Choice { name: "copy", also: &["pcie"], about: "copies from the host to a GPU" },
    Choice { name: "collective", also: &["nccl", "allreduce"], about: "collectives between GPUs" },
];

/// Answers from which a plan is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanAnswers {
    /// Names of [`PROBES`]. If empty: all probes if `gpus` is above 0, otherwise all that need no GPU.
    pub probes: Vec<String>,
    /// GPUs to measure; 0 for none.
    pub gpus: u64,
    /// Time limit of all probes together, such as `5 min`.
    pub budget: String,
}

impl Default for PlanAnswers {
    fn default() -> PlanAnswers {
        PlanAnswers { probes: Vec::new(), gpus: 0, budget: "5 min".to_owned() }
    }
}

impl PlanAnswers {
    /// Returns the text of the plan.
    ///
    /// # Errors
    /// If a probe is unknown, a probe needs a GPU and `gpus` is 0, or the budget is no time.
    pub fn text(&self) -> Result<String, TemplateError> {
        let named = self.probes.iter().map(|name| find("probe", &PROBES, name));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        let on_gpu = |name: &str| ["copy", "collective"].contains(&name);
        if let Some(probe) = named.iter().find(|of| on_gpu(of.name) && self.gpus == 0) {
            let what = format!("the probe `{}` needs a GPU", probe.name);
            return Err(TemplateError(format!("{what}: write --gpus 1, or leave it out")));
        }
        if self.gpus > 64 {
            return Err(TemplateError(format!(
                "--gpus is {}: write a whole number from 0 to 64",
                self.gpus
            )));
        }
        let wanted = |name: &str| match named.is_empty() {
            true => self.gpus > 0 || !on_gpu(name),
            false => named.iter().any(|of| of.name == name),
        };
        let tables: String =
            PROBES.iter().filter(|of| wanted(of.name)).map(|of| self.table(of)).collect();
        let budget = super::quoted(&self.budget);
        let text = format!(
            "# What is this machine like?\n\
             #\n\
             # Written by `forebay new plan`: each table is a probe, and what is left out is not measured. `forebay reference` explains\n\
             # all keys. Measured by: forebay calibrate --plan FILE\n\
             budget = {budget} # all probes together\n\
             seed = 1\n\
             \n\
             [trials]\n\
             length = \"50 ms\" # each, about\n\
             at_least = 6 # of each kind\n\
             at_most = 20\n\
             precision = 0.03 # known well enough: half of the median's 95 % interval, as a share\n\
             {tables}"
        );
        let text = super::aligned(&text);
        Plan::parse("the new plan", &text).map_err(|error| TemplateError(error.to_string()))?;
        Ok(text)
    }

    /// Returns the table of a probe.
    fn table(&self, probe: &Choice) -> String {
        let counts: Vec<String> = (0..7)
            .map(|power| 1u64 << power)
            .filter(|n| *n <= self.gpus.max(1))
            .map(|n| n.to_string())
            .collect();
        let keys = match probe.name {
            "queue" => "capacity = [1, 64, 1024]\nproducers = [1, 2, 4]\nconsumers = [1]\nbatch = [1, 32]\n".to_owned(),
            "read" => "access = [\"direct\", \"cold\", \"warm\"]\nlayout = [\"file-per-sample\", \"records\"]\n\
                       size = [\"4 KiB\", \"128 KiB\", \"1 MiB\"]\nreaders = [1, 4, 16]\ndisk = \"512 MiB\" # most \
                       bytes of files\n"
                .to_owned(),
            "decode" => "width = [128, 256, 500] # pixels; heights are three quarters\nresize = 224\nthreads = [1, 2, 4]\n"
                .to_owned(),
            "step" if self.gpus > 0 => "model = [\"resnet50\"]\nbatch = [8, 32, 64]\ndevice = [\"cuda:0\"]\n".to_owned(),
            "step" => "model = [\"lenet5\", \"resnet-small\", \"transformer-small\"]\nbatch = [8, 32, 128]\n".to_owned(),
            "cache" => "disk = \"256 MiB\" # the largest working set\n".to_owned(),
            "copy" => "size = [\"64 KiB\", \"1 MiB\", \"16 MiB\"]\nmemory = [\"pinned\", \"pageable\"]\n".to_owned(),
            "collective" => format!(
                "operation = [\"allreduce\"]\nsize = [\"64 KiB\", \"4 MiB\", \"64 MiB\"]\ngpus = [{}]\n",
                counts.join(", ")
            ),
            _ => String::new(),
        };
        let head = format!("[{}]", probe.name);
        format!("\n{head} # {}\n{keys}", probe.about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_for_a_single_probe_contains_only_that_probe() {
        for probe in PROBES {
            let answers = PlanAnswers {
                probes: vec![probe.name.to_owned()],
                gpus: 4,
                ..PlanAnswers::default()
            };
            let text = answers.text().unwrap_or_else(|error| panic!("{error}"));
            for other in PROBES {
                assert_eq!(text.contains(&format!("\n[{}]", other.name)), other == probe, "{text}");
            }
        }
    }

    #[test]
    fn gpu_probes_are_omitted_or_refused_on_machines_without_a_gpu() {
        let text = PlanAnswers::default().text().expect("a plan");
        assert!(!text.contains("[copy]") && !text.contains("cuda"), "{text}");
        let copy = PlanAnswers { probes: vec!["copy".to_owned()], ..PlanAnswers::default() };
        assert!(copy.text().expect_err("refused").to_string().contains("write --gpus 1"));
        let near = PlanAnswers { probes: vec!["decod".to_owned()], ..PlanAnswers::default() };
        assert!(near.text().expect_err("refused").to_string().contains("did you mean `decode`?"));
        let budget = PlanAnswers { budget: "soon".to_owned(), ..PlanAnswers::default() };
        assert!(budget.text().expect_err("refused").to_string().contains("soon"));
    }
}
