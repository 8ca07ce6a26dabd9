//! Shares of a GPU's peak that training reaches: published or measured figures, and what they say about other models and GPUs.

use crate::catalogue::{Gpu, Model, Precision, gpu, model};

/// What was measured on one GPU of a data parallel run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// Samples that the GPU trains on [samples/s].
    PerSecond(f64),
    /// Share of the peak that the FLOPs of the model reach, without recomputed ones (MFU).
    Share(f64),
    /// Samples per second that no faster GPU exceeds, because launches of kernels are the limit [samples/s].
    Launches(f64),
}

/// A figure, and the GPUs and models that it stands for.
struct Row {
    /// Models; the first one was measured.
    models: &'static [&'static str],
    /// GPUs of the same generation; the first one was measured.
    gpus: &'static [&'static str],
    precision: Precision,
    figure: Figure,
    source: &'static str,
}

/// Share of a GPU's peak that a model reaches in training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reached {
    /// Precision in which the share is known, which is the usual one on the GPU.
    pub(super) precision: Precision,
    /// Share of the peak in this precision.
    pub(super) share: f64,
    /// What was measured.
    figure: Figure,
    /// Model and GPU on which it was measured.
    on: (&'static str, &'static str),
    /// Where it is published.
    source: &'static str,
}

const KEPLER: &[&str] = &["k80"];
const PASCAL: &[&str] = &["p100-sxm2", "p100-pcie", "gtx-1080-ti", "titan-x-pascal", "titan-x"];
const VOLTA: &[&str] = &["v100-sxm2", "v100-sxm3-32gb", "v100-pcie"];
const AMPERE: &[&str] = &["a100-sxm4-80gb", "a100-sxm4-40gb", "a100-pcie-80gb"];
const AMPERE_40: &[&str] = &["a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-80gb"];
const HOPPER: &[&str] = &["h100-sxm5", "h100-pcie", "h200-sxm5"];
const GENERATIONS: [&[&str]; 5] = [KEPLER, PASCAL, VOLTA, AMPERE, HOPPER];

const TF_P100: &str = "TensorFlow benchmarks, DGX-1 with P100, synthetic data, May 2017";
const TF_K80: &str =
    "TensorFlow benchmarks, Google Compute Engine with K80, synthetic data, May 2017";
const DLE: &str = "NVIDIA DeepLearningExamples, ResNet50 v1.5 for PyTorch, 21.03, mixed precision";
const BERT: &str = "NVIDIA DeepLearningExamples, BERT for TensorFlow 19.03, sequences of 512, fp16";
const CUDNN: &str = "measured by forebay with cuDNN 9.19, batch 64: calibrate/profiles/h100";
const MEGATRON: &str = "Shoeybi et al., Megatron-LM, 2019, section 5.1: 39 TFLOP/s";
const FOUNDRY: &str = "MosaicML LLM Foundry, scripts/train/benchmarking/README.md";
const LLAMA: &str = "The Llama 3 Herd of Models, 2024, table 4, 16,384 GPUs";

const BILLIONS: &[&str] =
    &["llama2-7b", "llama3-8b", "llama2-13b", "gpt3-6.7b", "gpt3-1.3b", "gpt2-xl", "mixtral-8x7b"];

const fn row(
    models: &'static [&'static str],
    gpus: &'static [&'static str],
    precision: Precision,
    figure: Figure,
    source: &'static str,
) -> Row {
    Row { models, gpus, precision, figure, source }
}

use Figure::{Launches, PerSecond, Share};
use Precision::{Bf16, Fp16, Fp32};

/// The figures. A model without a row takes ResNet-50's share on the GPUs of the same generation. AlexNet and VGG16 have none: with
/// Winograd's convolutions they do fewer operations than are counted, and rates published for P100 are above the peak.
const ROWS: [Row; 25] = [
    row(&["resnet50"], KEPLER, Fp32, PerSecond(51.9), TF_K80),
    row(&["inceptionv3"], KEPLER, Fp32, PerSecond(30.5), TF_K80),
    row(&["resnet152", "resnet101"], KEPLER, Fp32, PerSecond(20.0), TF_K80),
    row(&["resnet50"], PASCAL, Fp32, PerSecond(219.0), TF_P100),
    row(&["inceptionv3"], PASCAL, Fp32, PerSecond(142.0), TF_P100),
    row(&["resnet152", "resnet101"], PASCAL, Fp32, PerSecond(91.8), TF_P100),
    row(&["resnet50"], VOLTA, Fp16, PerSecond(1200.0), DLE),
    row(&["bert-large", "bert-base"], VOLTA, Fp16, PerSecond(26.04), BERT),
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
        Fp16,
        Share(0.30),
        MEGATRON,
    ),
    row(&["resnet50"], AMPERE, Bf16, PerSecond(2470.0), DLE),
    row(&["gpt2", "bert-base"], AMPERE, Bf16, Share(0.4315), FOUNDRY),
    row(&["gpt2-medium", "bert-large"], AMPERE, Bf16, Share(0.5051), FOUNDRY),
    row(&["gpt2-large"], AMPERE, Bf16, Share(0.4776), FOUNDRY),
    row(BILLIONS, AMPERE_40, Bf16, Share(0.5011), FOUNDRY),
    row(
        &["llama2-70b", "llama3-70b", "gpt3-175b", "llama3-405b"],
        AMPERE,
        Bf16,
        Share(0.4856),
        FOUNDRY,
    ),
    row(&["resnet50"], HOPPER, Bf16, PerSecond(3151.0), CUDNN),
    row(
        &["gpt2-large", "gpt2-medium", "gpt2", "bert-large", "bert-base"],
        HOPPER,
        Bf16,
        Share(0.3976),
        FOUNDRY,
    ),
    row(BILLIONS, HOPPER, Bf16, Share(0.4042), FOUNDRY),
    row(&["llama2-70b", "llama3-70b", "gpt3-175b"], HOPPER, Bf16, Share(0.4257), FOUNDRY),
    row(&["llama3-405b"], HOPPER, Bf16, Share(0.41), LLAMA),
    // Launches bound LeNet-5: 64 samples take 0.196 ms, and 0.175 ms in fp32.
    row(&["lenet5"], KEPLER, Fp32, Launches(365_500.0), CUDNN),
    row(&["lenet5"], PASCAL, Fp32, Launches(365_500.0), CUDNN),
    row(&["lenet5"], VOLTA, Fp16, Launches(326_400.0), CUDNN),
    row(&["lenet5"], AMPERE, Bf16, Launches(326_400.0), CUDNN),
    row(&["lenet5"], HOPPER, Bf16, Launches(326_400.0), CUDNN),
];

/// Returns the share of the peak of `of` that `trained` reaches; `None` for a GPU or model of no known kind.
pub(super) fn reached(trained: &Model, of: &Gpu) -> Option<Reached> {
    let generation = GENERATIONS.iter().find(|gpus| gpus.contains(&of.name))?;
    let fits = |row: &&Row, name: &str| row.models.contains(&name) && row.gpus.contains(&of.name);
    let own = ROWS.iter().find(|row| fits(row, trained.name));
    let row = own.or_else(|| ROWS.iter().find(|row| fits(row, "resnet50")))?;
    let on = (*row.models.first()?, *row.gpus.first()?);
    let of_rate = |rate: f64, model: &Model, gpu: &Gpu| {
        let flops = (model.flops() + model.backward_flops()) as f64;
        gpu.peak(row.precision).map(|peak| rate * flops / peak)
    };
    let share = match row.figure {
        Share(share) => share,
        PerSecond(rate) => of_rate(rate, &model(on.0)?, gpu(on.1)?)?,
        Launches(rate) => of_rate(rate, trained, of)?,
    };
    debug_assert!(generation.contains(&on.1), "a figure of another generation");
    Some(Reached { precision: row.precision, share, figure: row.figure, on, source: row.source })
}

impl Reached {
    /// Says what was measured, and where.
    pub(super) fn said(&self) -> String {
        let (model, gpu) = self.on;
        let what = match self.figure {
            PerSecond(rate) => format!("{rate} samples/s of `{model}` on one {gpu}"),
            Share(_) if self.source == FOUNDRY => format!("MPT of the size of `{model}` on {gpu}"),
            Share(_) => format!("`{model}` on {gpu}"),
            Launches(rate) => {
                format!("{rate} samples/s of `{model}`, bound by launches of kernels")
            }
        };
        format!("{what}: {}", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{GPUS, Input, MODELS};

    #[test]
    fn every_model_has_a_share_of_every_gpu_that_training_reaches() {
        for gpu in &GPUS {
            for name in MODELS {
                let model = model(name).expect("a model");
                let reached =
                    reached(&model, gpu).unwrap_or_else(|| panic!("{name}, {}", gpu.name));
                assert!(gpu.peak(reached.precision).is_some(), "{name}, {}", gpu.name);
                let tokens = matches!(model.input, Input::Tokens(_));
                let usual = if tokens && gpu.bf16.is_some() { 0.35..0.51 } else { 1e-4..0.8 };
                assert!(usual.contains(&reached.share), "{name}, {}: {reached:?}", gpu.name);
            }
        }
    }

    #[test]
    fn resnet_50_trains_as_many_images_as_published() {
        // System: the share of the peak times the peak, over the FLOPs of a sample. Expectation: the published images/s.
        let resnet = model("resnet50").expect("a model");
        let flops = (resnet.flops() + resnet.backward_flops()) as f64;
        for (name, rate) in [
            ("k80", 51.9),
            ("p100-sxm2", 219.0),
            ("v100-sxm2", 1200.0),
            ("a100-sxm4-80gb", 2470.0),
            ("h100-sxm5", 3151.0),
        ] {
            let gpu = gpu(name).expect("a GPU");
            let reached = reached(&resnet, gpu).expect("known");
            let found = reached.share * gpu.peak(reached.precision).expect("known") / flops;
            assert!((found / rate - 1.0).abs() < 1e-9, "{name}: {found}");
        }
    }
}
