//! Shares of a GPU's peak that training reaches: published or measured figures, and what they say about other models and GPUs.

use crate::catalogue::{Gpu, Model, Precision, gpu, model};

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// Samples that a GPU trains on [samples/s].
    PerSecond(f64),
    /// Rate as a multiple of ResNet-50's on the same GPU.
    TimesResnet50(f64),
    /// Share of the peak: MFU of the run; HFU if it recomputed activations. Recomputation is not simulated, so that a step has only the
    /// model's operations.
    Share(f64),
    /// Step of 64 samples of a model so small that launches of kernels are the limit [s]. Another model takes as long for each of its
    /// layers, unless it takes longer at ResNet-50's share of the peak.
    Launches(f64),
}

/// What a measured figure includes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Run {
    /// One GPU, or the GPUs of one node without recomputation: exchanges hardly matter.
    Alone,
    /// A run on several nodes: exchanges that computation does not hide lower the figure.
    Whole,
}

/// A figure, and the GPUs and models that it stands for.
struct Row {
    /// Models; the first one was measured.
    models: &'static [&'static str],
    /// GPUs that the figure stands for; rates were measured on the first one.
    gpus: &'static [&'static str],
    figure: Figure,
    run: Run,
    source: &'static str,
}

/// Share of a GPU's peak that a model reaches in training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reached {
    /// Precision in which the share is known, which is the usual one on the GPU.
    pub(super) precision: Precision,
    /// Share of the peak in this precision; above 1 where kernels do fewer operations than are counted.
    pub(super) share: f64,
    /// What was measured.
    figure: Figure,
    run: Run,
    /// Model and GPU on which it was measured.
    on: (&'static str, &'static str),
    /// Where it is published.
    source: &'static str,
}

const ALL: &[&str] = &[
    "k80",
    "p100-sxm2",
    "p100-pcie",
    "gtx-1080-ti",
    "titan-x-pascal",
    "titan-x",
    "v100-sxm2",
    "v100-sxm3-32gb",
    "v100-pcie",
    "a100-sxm4-80gb",
    "a100-sxm4-40gb",
    "a100-pcie-80gb",
    "h100-sxm5",
    "h100-pcie",
    "h200-sxm5",
];
/// GPUs that train in fp32.
const SINGLE: &[&str] = ALL.split_at(6).0;
/// GPUs that train in mixed precision.
const MIXED: &[&str] = ALL.split_at(6).1;
const KEPLER: &[&str] = SINGLE.split_at(1).0;
const PASCAL: &[&str] = SINGLE.split_at(1).1;
const VOLTA: &[&str] = MIXED.split_at(3).0;
const AMPERE: &[&str] = MIXED.split_at(3).1.split_at(3).0;
const HOPPER: &[&str] = MIXED.split_at(6).1;
/// Generations of GPUs, each with the precision in which models are trained on it.
const GENERATIONS: [(&[&str], Precision); 5] =
    [(KEPLER, Fp32), (PASCAL, Fp32), (VOLTA, Fp16), (AMPERE, Bf16), (HOPPER, Bf16)];

const TF_P100: &str =
    "TensorFlow benchmarks, DGX-1, synthetic data, batch 64, of AlexNet 512, May 2017";
const TF_K80: &str = "TensorFlow benchmarks, Google Compute Engine, synthetic data, batch 32 to 64, of AlexNet 512, May 2017";
const DLE: &str = "NVIDIA DeepLearningExamples, ResNet50 v1.5 for PyTorch, 21.03, mixed precision";
const BERT: &str =
    "NVIDIA DeepLearningExamples, BERT for PyTorch, 21.11, sequences of 512, mixed precision";
const TIMM: &str = "timm, results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv";
const CUDNN: &str = "measured by forebay on an H100, cuDNN 9.19, batch 64, eager (no CUDA graph): calibrate/profiles/h100";
const MEGATRON: &str = "Shoeybi et al., Megatron-LM, 2019, section 5.1: 1.2 billion parameters, sequences of 1024, 39 TFLOP/s on one V100";

/// Names a row of the tables of MosaicML's LLM Foundry.
macro_rules! foundry {
    ($what:literal) => {
        concat!("MPT of ", $what, ": MosaicML LLM Foundry, scripts/train/benchmarking/README.md")
    };
}

const SEVEN_BILLION: &[&str] = &["llama2-7b", "llama3-8b", "gpt3-6.7b", "mixtral-8x7b"];
const LARGEST: &[&str] = &["llama2-70b", "llama3-70b", "gpt3-175b", "llama3-405b"];
/// Models whose kernels are so short that a GPU waits for their launches.
const SMALL: &[&str] = &["lenet5", "resnet32", "dcgan"];

const fn row(
    models: &'static [&'static str],
    gpus: &'static [&'static str],
    figure: Figure,
    source: &'static str,
) -> Row {
    Row { models, gpus, figure, run: Run::Alone, source }
}

const fn whole(of: Row) -> Row {
    Row { run: Run::Whole, ..of }
}

use Figure::{Launches, PerSecond, Share, TimesResnet50};
use Precision::{Bf16, Fp16, Fp32};

/// The figures; the first row that fits a model and a GPU counts. A model without a row takes ResNet-50's share.
const ROWS: [Row; 35] = [
    row(&["resnet50"], KEPLER, PerSecond(51.9), TF_K80),
    row(&["inceptionv3"], KEPLER, PerSecond(30.5), TF_K80),
    row(&["resnet152", "resnet101"], KEPLER, PerSecond(20.0), TF_K80),
    row(&["alexnet"], KEPLER, PerSecond(656.0), TF_K80),
    row(&["vgg16"], KEPLER, PerSecond(35.4), TF_K80),
    row(&["resnet50"], PASCAL, PerSecond(219.0), TF_P100),
    row(&["inceptionv3"], PASCAL, PerSecond(142.0), TF_P100),
    row(&["resnet152", "resnet101"], PASCAL, PerSecond(91.8), TF_P100),
    row(&["alexnet"], PASCAL, PerSecond(2987.0), TF_P100),
    row(&["vgg16"], PASCAL, PerSecond(154.0), TF_P100),
    row(&["resnet50"], VOLTA, PerSecond(1200.0), DLE),
    row(&["bert-large", "bert-base"], VOLTA, PerSecond(75.0), BERT),
    row(
        &[
            "gpt3-1.3b",
            "gpt2",
            "gpt2-medium",
            "gpt2-large",
            "gpt2-xl",
            "gpt3-6.7b",
            "llama2-7b",
            "llama3-8b",
            "llama2-13b",
            "mixtral-8x7b",
            "llama2-70b",
            "llama3-70b",
            "gpt3-175b",
            "llama3-405b",
        ],
        VOLTA,
        Share(0.30),
        MEGATRON,
    ),
    row(&["resnet50"], AMPERE, PerSecond(2470.0), DLE),
    row(&["bert-large", "bert-base"], AMPERE, PerSecond(210.0), BERT),
    row(&["gpt2"], AMPERE, Share(0.4315), foundry!("125M, 1024 tokens, FSDP on 8 A100 80 GB")),
    row(
        &["gpt2-medium"],
        AMPERE,
        Share(0.5051),
        foundry!("350M, 1024 tokens, FSDP on 8 A100 80 GB"),
    ),
    row(
        &["gpt2-large"],
        AMPERE,
        Share(0.4776),
        foundry!("760M, 1024 tokens, FSDP on 8 A100 80 GB"),
    ),
    row(&["gpt2-xl"], AMPERE, Share(0.6015), foundry!("1B, 1024 tokens, FSDP on 8 A100 80 GB")),
    row(&["gpt3-1.3b"], AMPERE, Share(0.5986), foundry!("1B, 2048 tokens, FSDP on 8 A100 80 GB")),
    row(SEVEN_BILLION, AMPERE, Share(0.6423), foundry!("7B, 2048 tokens, FSDP on 8 A100 80 GB")),
    row(&["llama2-13b"], AMPERE, Share(0.5957), foundry!("13B, 2048 tokens, FSDP on 8 A100 80 GB")),
    // MFU 53.33 %; a third of the operations is recomputed in addition.
    whole(row(
        LARGEST,
        AMPERE,
        Share(0.711),
        foundry!("70B, 2048 tokens, HFU of FSDP on 64 A100 80 GB with recomputation"),
    )),
    row(&["resnet50"], HOPPER, PerSecond(3151.0), CUDNN),
    row(
        &["gpt2-large", "gpt2-medium", "gpt2", "bert-large", "bert-base"],
        HOPPER,
        Share(0.3976),
        foundry!("760M, 1024 tokens, FSDP on 8 H100"),
    ),
    row(&["gpt2-xl"], HOPPER, Share(0.4195), foundry!("1B, 1024 tokens, FSDP on 8 H100")),
    row(&["gpt3-1.3b"], HOPPER, Share(0.4182), foundry!("1B, 2048 tokens, FSDP on 8 H100")),
    row(SEVEN_BILLION, HOPPER, Share(0.4644), foundry!("7B, 2048 tokens, FSDP on 8 H100")),
    row(&["llama2-13b"], HOPPER, Share(0.3979), foundry!("13B, 2048 tokens, FSDP on 8 H100")),
    // MFU 42.57 %.
    whole(row(
        LARGEST,
        HOPPER,
        Share(0.5676),
        foundry!("70B, 2048 tokens, HFU of FSDP on 64 H100 with recomputation"),
    )),
    // Steps of LeNet-5 take 0.987 ms in bf16, with casts, and 0.428 ms in fp32.
    row(SMALL, SINGLE, Launches(0.4278e-3), CUDNN),
    row(SMALL, MIXED, Launches(0.9871e-3), CUDNN),
    // 2313 and 1218 images/s. Memory bounds MobileNetV2, whose convolutions have a tenth of ResNet-50's operations.
    row(&["mobilenetv2"], ALL, TimesResnet50(1.90), TIMM),
    // 546 images/s: large convolutions reach more of the peak than ResNet-50's.
    row(&["vgg16", "alexnet"], MIXED, TimesResnet50(0.448), TIMM),
    // 782 images/s.
    row(&["inceptionv3"], MIXED, TimesResnet50(0.642), TIMM),
];

/// Returns the share of the peak of `of` that `trained` reaches; `None` for a GPU or model of no known kind.
pub(super) fn reached(trained: &Model, of: &Gpu) -> Option<Reached> {
    let (_, precision) = GENERATIONS.iter().find(|(gpus, _)| gpus.contains(&of.name))?;
    let peak = |gpu: &Gpu| gpu.peak(*precision);
    let fits = |row: &&Row, name: &str| row.models.contains(&name) && row.gpus.contains(&of.name);
    let as_resnet = || ROWS.iter().find(|row| fits(row, "resnet50"));
    let row = ROWS.iter().find(|row| fits(row, trained.name)).or_else(as_resnet)?;
    let on = (*row.models.first()?, *row.gpus.first()?);
    let resnet = || reached(&model("resnet50")?, of);
    let reached = |share| Reached {
        precision: *precision,
        share,
        figure: row.figure,
        run: row.run,
        on,
        source: row.source,
    };
    Some(match row.figure {
        Share(share) => reached(share),
        PerSecond(rate) => reached(rate * work(&model(on.0)?) / peak(gpu(on.1)?)?),
        TimesResnet50(times) => {
            let as_many = work(&model(on.0)?) / work(&model("resnet50")?);
            reached(times * as_many * resnet()?.share)
        }
        Launches(step) => {
            let layers = trained.layers.len() as f64 / model(on.0)?.layers.len() as f64;
            let bound = 64.0 / (step * layers) * work(trained) / peak(of)?;
            let resnet = resnet()?;
            if bound < resnet.share { reached(bound) } else { resnet }
        }
    })
}

/// Returns the work of a sample's forward and backward pass [FLOP].
fn work(of: &Model) -> f64 {
    (of.flops() + of.backward_flops()) as f64
}

impl Reached {
    /// Returns the time of a sample of `trained` on a GPU [s].
    pub(super) fn time(&self, trained: &Model, gpu: &Gpu) -> Option<f64> {
        Some(work(trained) / (self.share * gpu.peak(self.precision)?))
    }

    /// Says what was measured, and where.
    pub(super) fn said(&self) -> String {
        let (model, gpu) = self.on;
        let source = self.source;
        let what = match self.figure {
            PerSecond(rate) => format!("{rate} samples/s of `{model}` on one {gpu}: {source}"),
            TimesResnet50(times) => {
                format!(
                    "{times} times the rate of `resnet50`, as `{model}` on an RTX 3090: {source}"
                )
            }
            Share(_) => source.to_owned(),
            Launches(step) => {
                let step = step * 1e3;
                format!("launches of kernels, as in steps of {step:.3} ms of `{model}`: {source}")
            }
        };
        match self.run {
            Run::Alone => format!("share of the peak, from {what}"),
            Run::Whole => {
                format!("share of a whole run, exchanges included: forebay adds its own; {what}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{GPUS, MODELS};

    /// Returns the samples/s of a model on a GPU.
    fn rate(name: &str, on: &str) -> f64 {
        let (model, gpu) = (model(name).expect("a model"), gpu(on).expect("a GPU"));
        1.0 / reached(&model, gpu).and_then(|of| of.time(&model, gpu)).expect("known")
    }

    #[test]
    fn every_model_has_a_share_of_every_gpu_that_training_reaches() {
        assert_eq!(ALL.len(), GPUS.len());
        for gpu in &GPUS {
            for name in MODELS {
                let model = model(name).expect("a model");
                let reached =
                    reached(&model, gpu).unwrap_or_else(|| panic!("{name}, {}", gpu.name));
                assert!(gpu.peak(reached.precision).is_some(), "{name}, {}", gpu.name);
                // Winograd's convolutions do fewer operations than are counted.
                let winograd = ["alexnet", "vgg16"].contains(&name) && PASCAL.contains(&gpu.name);
                let of_tokens = ["gpt", "llama", "bert"].iter().any(|kind| name.contains(kind));
                // The smallest convolutions are limited by launches of kernels.
                let usual = match (winograd, of_tokens) {
                    (true, _) => 1.0..1.5,
                    (false, true) => 0.2..0.75,
                    (false, false) => 5e-5..0.8,
                };
                assert!(usual.contains(&reached.share), "{name}, {}: {reached:?}", gpu.name);
            }
        }
    }

    #[test]
    fn models_train_as_many_samples_as_published() {
        // System: the share of the peak times the peak, over the FLOPs of a sample. Expectation: the published samples/s.
        for (model, gpu, published) in [
            ("resnet50", "k80", 51.9),
            ("resnet50", "p100-sxm2", 219.0),
            ("resnet50", "v100-sxm2", 1200.0),
            ("resnet50", "a100-sxm4-80gb", 2470.0),
            ("resnet50", "h100-sxm5", 3151.0),
            ("vgg16", "p100-sxm2", 154.0),
            ("vgg16", "k80", 35.4),
            ("alexnet", "p100-sxm2", 2987.0),
            ("alexnet", "k80", 656.0),
            ("bert-large", "v100-sxm2", 75.0),
            ("bert-large", "a100-sxm4-80gb", 210.0),
            // 64 samples in 0.9871 ms.
            ("lenet5", "h100-sxm5", 64_836.0),
        ] {
            let found = rate(model, gpu);
            assert!((found / published - 1.0).abs() < 1e-4, "{model}, {gpu}: {found}");
        }
        // Tokens/s of a GPU, with a little other attention than MPT's.
        for (model, gpu, published) in
            [("gpt3-1.3b", "a100-sxm4-80gb", 20_513.0), ("gpt3-6.7b", "a100-sxm4-80gb", 4641.0)]
        {
            let found = 2048.0 * rate(model, gpu);
            assert!((found / published - 1.0).abs() < 0.08, "{model}, {gpu}: {found}");
        }
    }

    #[test]
    fn small_and_large_convolutions_relate_to_resnet_50_as_measured() {
        for gpu in MIXED {
            for (model, times) in [("mobilenetv2", 1.90), ("vgg16", 0.448), ("inceptionv3", 0.642)]
            {
                let found = rate(model, gpu) / rate("resnet50", gpu);
                assert!((found / times - 1.0).abs() < 1e-9, "{model}, {gpu}: {found}");
            }
            // Launches bound ResNet-32, which has a dozen times as many layers as LeNet-5.
            let found = rate("resnet32", gpu);
            assert!((2e3..2e4).contains(&found) && found < rate("lenet5", gpu), "{gpu}: {found}");
        }
    }
}
