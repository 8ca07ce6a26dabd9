//! The models of the catalogue, one module for each family.

mod alexnet;
mod bert;
mod dcgan;
mod gpt;
mod inception;
mod lenet;
mod llama;
mod mixtral;
mod mobilenet;
mod resnet;
mod vgg;

use super::layer::{Input, Model};

/// How a model is made: with a fixed input, or for a given sequence length [tokens].
#[derive(Debug, Clone, Copy)]
enum Maker {
    Fixed(fn() -> Model),
    OfLength { usual: u64, longest: u64, make: fn(u64) -> Model },
}

use Maker::{Fixed, OfLength};

/// Returns the maker of a model that is usually trained with, and limited to, sequences of `usual` tokens.
const fn up_to(usual: u64, make: fn(u64) -> Model) -> Maker {
    OfLength { usual, longest: usual, make }
}

/// Returns the maker of a Llama 3 model, which was trained with 8,192 tokens, then with up to 131,072 (The Llama 3 Herd of
/// Models, section 3.4.2).
const fn llama3(make: fn(u64) -> Model) -> Maker {
    OfLength { usual: 8192, longest: 131_072, make }
}

/// Names of all models, in ascending order of parameters.
pub const MODELS: [&str; 26] = [
    "lenet5",
    "resnet32",
    "mobilenetv2",
    "dcgan",
    "resnet50",
    "inceptionv3",
    "resnet101",
    "resnet152",
    "alexnet",
    "bert-base",
    "gpt2",
    "vgg16",
    "bert-large",
    "gpt2-medium",
    "gpt2-large",
    "gpt3-1.3b",
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
];

fn maker(name: &str) -> Option<Maker> {
    Some(match name {
        "alexnet" => Fixed(alexnet::alexnet),
        "bert-base" => up_to(512, bert::base),
        "bert-large" => up_to(512, bert::large),
        "dcgan" => Fixed(dcgan::dcgan),
        "gpt2" => up_to(1024, gpt::gpt2),
        "gpt2-medium" => up_to(1024, gpt::gpt2_medium),
        "gpt2-large" => up_to(1024, gpt::gpt2_large),
        "gpt2-xl" => up_to(1024, gpt::gpt2_xl),
        "gpt3-1.3b" => up_to(2048, gpt::gpt3_1b),
        "gpt3-6.7b" => up_to(2048, gpt::gpt3_7b),
        "gpt3-175b" => up_to(2048, gpt::gpt3_175b),
        "inceptionv3" => Fixed(inception::inception_v3),
        "lenet5" => Fixed(lenet::lenet5),
        "llama2-7b" => up_to(4096, llama::llama2_7b),
        "llama2-13b" => up_to(4096, llama::llama2_13b),
        "llama2-70b" => up_to(4096, llama::llama2_70b),
        "llama3-8b" => llama3(llama::llama3_8b),
        "llama3-70b" => llama3(llama::llama3_70b),
        "llama3-405b" => llama3(llama::llama3_405b),
        "mixtral-8x7b" => up_to(32_768, mixtral::mixtral_8x7b),
        "mobilenetv2" => Fixed(mobilenet::mobilenet_v2),
        "resnet32" => Fixed(resnet::resnet32),
        "resnet50" => Fixed(resnet::resnet50),
        "resnet101" => Fixed(resnet::resnet101),
        "resnet152" => Fixed(resnet::resnet152),
        "vgg16" => Fixed(vgg::vgg16),
        _ => return None,
    })
}

/// Returns the model called `name`, for its usual sequence length if it works on sequences; `None` if there is no such model.
#[must_use]
pub fn model(name: &str) -> Option<Model> {
    Some(match maker(name)? {
        Fixed(make) => make(),
        OfLength { usual, make, .. } => make(usual),
    })
}

/// Returns the model called `name` for sequences of `length` tokens. `length` is from 1 to the size of the model's position table
/// or, without a table, the longest sequence that it was trained with. `None` if there is no such model, it takes no sequences,
/// or `length` is out of range.
#[must_use]
pub fn model_of_length(name: &str, length: u64) -> Option<Model> {
    match maker(name)? {
        OfLength { longest, make, .. } if (1..=longest).contains(&length) => Some(make(length)),
        _ => None,
    }
}

/// Returns the longest sequence that the model called `name` takes [tokens]; `None` if there is no such model or it takes no
/// sequences.
#[must_use]
pub fn longest_sequence(name: &str) -> Option<u64> {
    match maker(name)? {
        OfLength { longest, .. } => Some(longest),
        Fixed(_) => None,
    }
}

/// Returns a square colour image of `side` × `side` pixels.
const fn image(side: u64) -> Input {
    Input::Image { channels: 3, height: side, width: side }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Model {
        model(name).unwrap_or_else(|| panic!("{name} is in the list"))
    }

    fn near(found: u64, published: f64, name: &str) {
        let off = found as f64 / published - 1.0;
        assert!(off.abs() < 0.01, "{name}: {found}, published {published:e}");
    }

    #[test]
    fn every_listed_neural_network_exists_and_cites_a_source() {
        let mut before = 0;
        for name in MODELS {
            let model = named(name);
            assert_eq!(model.name, name);
            assert!(model.source.len() > 20, "{name} has a source");
            assert!(model.input.elements() > 0);
            let mut names: Vec<&str> = model.layers.iter().map(|l| l.name.as_str()).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{name}: names differ");
            assert!(model.parameters() > before, "{name} stands in order");
            before = model.parameters();
        }
        assert_eq!(model("resnet49"), None);
    }

    #[test]
    fn parameter_counts_of_models_match_published_values() {
        // torchvision: `num_params` of its weights. transformers: counts of its models, which for Llama and Mixtral equal those
        // of the released weights. GPT-3: the paper's table 2.1. ResNet-32: the paper's table 6, 0.46 M.
        let exact = [
            ("lenet5", 61_706),
            ("alexnet", 61_100_840),
            ("vgg16", 138_357_544),
            ("resnet50", 25_557_032),
            ("resnet101", 44_549_160),
            ("resnet152", 60_192_808),
            ("inceptionv3", 27_161_264),
            ("mobilenetv2", 3_504_872),
            ("resnet32", 464_154),
            ("dcgan", 3_576_704 + 2_765_568),
            ("bert-base", 109_482_240),
            ("bert-large", 335_141_888),
            ("gpt2", 124_439_808),
            ("gpt2-medium", 354_823_168),
            ("gpt2-large", 774_030_080),
            ("gpt2-xl", 1_557_611_200),
            ("llama2-7b", 6_738_415_616),
            ("llama2-13b", 13_015_864_320),
            ("llama2-70b", 68_976_648_192),
            ("llama3-8b", 8_030_261_248),
            ("llama3-70b", 70_553_706_496),
            ("llama3-405b", 405_853_388_800),
            ("mixtral-8x7b", 46_702_792_704),
        ];
        for (name, parameters) in exact {
            assert_eq!(named(name).parameters(), parameters, "{name}");
        }
        for (name, parameters) in
            [("gpt3-1.3b", 1.316e9), ("gpt3-6.7b", 6.658e9), ("gpt3-175b", 174.6e9)]
        {
            near(named(name).parameters(), parameters, name);
        }
    }

    #[test]
    fn flops_of_models_match_published_values() {
        // Multiply-adds: torchvision's `_ops` of its weights, without Inception's auxiliary head, which only training uses.
        let of_aux = |model: &Model| {
            model.layers.iter().filter(|l| l.name.starts_with("aux")).map(|l| l.flops).sum::<u64>()
        };
        for (name, giga) in [
            ("alexnet", 0.714),
            ("vgg16", 15.470),
            ("resnet50", 4.089),
            ("resnet101", 7.801),
            ("resnet152", 11.514),
            ("inceptionv3", 5.713),
            ("mobilenetv2", 0.301),
            // Papers on pruning publish 69 million.
            ("resnet32", 0.0691),
        ] {
            let model = named(name);
            near(model.flops() - of_aux(&model), 2e9 * giga, name);
        }
        // Sun et al., MobileBERT (2020), table 4: 22.5 G for 128 tokens. Clark et al., ELECTRA (2020), table 8: 79 G.
        near(model_of_length("bert-base", 128).expect("base").flops(), 22.5e9, "base");
        near(model_of_length("bert-large", 128).expect("large").flops(), 79e9, "large");
    }

    #[test]
    fn training_gpt3_takes_the_published_flops() {
        // Brown et al. (2020), table D.1: 3.14e23 FLOPs for 300 G tokens, in which each weight takes part in three products (one
        // forward, two backward).
        let model = named("gpt3-175b");
        let products = model.layers.iter().filter(|l| !l.name.ends_with("scores"));
        let forward: u64 = products.map(|layer| layer.flops).sum();
        near(forward / 2048, 3.14e23 / 300e9 / 3.0, "gpt3");
    }

    #[test]
    fn training_llama3_takes_the_published_flops() {
        // Grattafiori et al. (2024), section 3.2.1: 3.8e25 FLOPs for 15.6 T tokens.
        let model = named("llama3-405b");
        let products = model.layers.iter().filter(|l| !l.name.ends_with("scores"));
        let forward: u64 = products.map(|layer| layer.flops).sum();
        near(forward / 8192, 3.8e25 / 15.6e12 / 3.0, "llama3-405b");
    }

    #[test]
    fn mixtral_has_the_published_experts_and_active_parameters() {
        // Jiang et al. (2024), table 1 and section 1; Mistral AI's announcement: a token uses 12.9 G of 46.7 G parameters.
        let model = named("mixtral-8x7b");
        near(model.parameters(), 46.7e9, "all");
        near(model.active_parameters(), 12.9e9, "active");
        let mixture = model.mixture().expect("experts");
        assert_eq!((mixture.experts, mixture.per_token, mixture.layers), (8, 2, 32));
        assert_eq!(mixture.dispatched, 32_768 * 4096 * 2);
        assert_eq!(mixture.parameters, 32 * 8 * 3 * 4096 * 14_336);
        // A token does not use six of eight experts.
        let left = model.parameters() - model.active_parameters();
        assert_eq!(left, mixture.parameters / 8 * 6);
        assert_eq!(named("llama3-405b").mixture(), None);
    }

    #[test]
    fn sizes_of_convolution_outputs_match_published_values() {
        // Radosavovic et al., Designing Network Design Spaces (2020), table 4: elements in the outputs of all convolutions
        // [millions].
        for (name, millions) in [("resnet50", 11.1), ("resnet101", 16.2), ("resnet152", 22.6)] {
            let model = named(name);
            let conv = model.layers.iter().filter(|l| l.flops > 0 && l.name != "fc");
            near(conv.map(|l| l.activations).sum(), millions * 1e6, name);
            // Norms keep as many elements as convolutions, except in shortcuts and with pools.
            let kept = model.activations() as f64 / (millions * 2e6);
            assert!((0.9..1.0).contains(&kept), "{name}: {kept}");
        }
    }

    #[test]
    fn longer_sequences_take_more_flops_and_overlong_sequences_are_refused() {
        let [short, long] = [128, 512].map(|n| model_of_length("bert-base", n).expect("a model"));
        assert!(long.flops() > 4 * short.flops(), "attention goes with the square");
        assert_eq!(long.parameters(), short.parameters());
        assert_eq!(model_of_length("bert-base", 513), None);
        assert_eq!(model_of_length("bert-base", 0), None);
        // Rotary positions have no table, so the longest sequence of these models is the longest in training.
        for (name, usual, longest) in [("llama2-70b", 4096, 4096), ("llama3-8b", 8192, 131_072)] {
            assert_eq!(named(name).input, Input::Tokens(usual));
            assert!(model_of_length(name, longest).is_some(), "{name}");
            assert_eq!(model_of_length(name, longest + 1), None, "{name}");
        }
        assert_eq!(model_of_length("vgg16", 1), None);
    }
}
