//! The models.

mod alexnet;
mod bert;
mod dcgan;
mod gpt;
mod inception;
mod lenet;
mod mobilenet;
mod resnet;
mod vgg;

use super::layer::{Input, Model};

/// How a model is made: out of nothing, or for a length of sequences [tokens].
#[derive(Debug, Clone, Copy)]
enum Maker {
    Fixed(fn() -> Model),
    OfLength { usual: u64, make: fn(u64) -> Model },
}

use Maker::{Fixed, OfLength};

/// Names of all models, in ascending order of parameters.
pub const MODELS: [&str; 19] = [
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
    "gpt3-175b",
];

fn maker(name: &str) -> Option<Maker> {
    Some(match name {
        "alexnet" => Fixed(alexnet::alexnet),
        "bert-base" => OfLength { usual: 512, make: bert::base },
        "bert-large" => OfLength { usual: 512, make: bert::large },
        "dcgan" => Fixed(dcgan::dcgan),
        "gpt2" => OfLength { usual: 1024, make: gpt::gpt2 },
        "gpt2-medium" => OfLength { usual: 1024, make: gpt::gpt2_medium },
        "gpt2-large" => OfLength { usual: 1024, make: gpt::gpt2_large },
        "gpt2-xl" => OfLength { usual: 1024, make: gpt::gpt2_xl },
        "gpt3-1.3b" => OfLength { usual: 2048, make: gpt::gpt3_1b },
        "gpt3-6.7b" => OfLength { usual: 2048, make: gpt::gpt3_7b },
        "gpt3-175b" => OfLength { usual: 2048, make: gpt::gpt3_175b },
        "inceptionv3" => Fixed(inception::inception_v3),
        "lenet5" => Fixed(lenet::lenet5),
        "mobilenetv2" => Fixed(mobilenet::mobilenet_v2),
        "resnet32" => Fixed(resnet::resnet32),
        "resnet50" => Fixed(resnet::resnet50),
        "resnet101" => Fixed(resnet::resnet101),
        "resnet152" => Fixed(resnet::resnet152),
        "vgg16" => Fixed(vgg::vgg16),
        _ => return None,
    })
}

/// The model of a name, for sequences of their usual length where it works on such.
#[must_use]
pub fn model(name: &str) -> Option<Model> {
    Some(match maker(name)? {
        Fixed(make) => make(),
        OfLength { usual, make } => make(usual),
    })
}

/// The model of a name for sequences of `length` [tokens], 1 to what its table of positions holds; none
/// where the model works on something else or on no such length.
#[must_use]
pub fn model_of_length(name: &str, length: u64) -> Option<Model> {
    match maker(name)? {
        OfLength { usual, make } if (1..=usual).contains(&length) => Some(make(length)),
        _ => None,
    }
}

/// A colour image as high as wide.
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
    fn every_model_of_the_list_is_there_and_says_where_it_is_from() {
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
    fn parameters_are_the_published_ones() {
        // torchvision's `num_params` of its weights; transformers' counts of its models; for GPT-3 the paper's
        // table 2.1; for ResNet-32 the paper's table 6, 0.46 M.
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
    fn work_is_the_published_one() {
        // Multiply-adds: torchvision's `_ops` of its weights, without Inception's auxiliary head, which only
        // training has.
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
            // Pruning literature: 69 million.
            ("resnet32", 0.0691),
        ] {
            let model = named(name);
            near(model.flops() - of_aux(&model), 2e9 * giga, name);
        }
        // Sun et al., MobileBERT (2020), table 4: 22.5 G of 128 tokens. Clark et al., ELECTRA (2020), table 8: 79 G.
        near(model_of_length("bert-base", 128).expect("base").flops(), 22.5e9, "base");
        near(model_of_length("bert-large", 128).expect("large").flops(), 79e9, "large");
    }

    #[test]
    fn training_gpt3_takes_what_its_authors_say() {
        // Brown et al. (2020), table D.1: 3.14e23 FLOPs for 300 G tokens, three passes of products with weights.
        let model = named("gpt3-175b");
        let products = model.layers.iter().filter(|l| !l.name.ends_with("scores"));
        let forward: u64 = products.map(|layer| layer.flops).sum();
        near(forward / 2048, 3.14e23 / 300e9 / 3.0, "gpt3");
    }

    #[test]
    fn outputs_of_convolutions_are_the_published_ones() {
        // Radosavovic et al., Designing Network Design Spaces (2020), table 4: elements of all outputs of
        // convolutions [millions].
        for (name, millions) in [("resnet50", 11.1), ("resnet101", 16.2), ("resnet152", 22.6)] {
            let model = named(name);
            let conv = model.layers.iter().filter(|l| l.flops > 0 && l.name != "fc");
            near(conv.map(|l| l.activations).sum(), millions * 1e6, name);
            // Norms keep as much again, except in shortcuts and with pools.
            let kept = model.activations() as f64 / (millions * 2e6);
            assert!((0.9..1.0).contains(&kept), "{name}: {kept}");
        }
    }

    #[test]
    fn longer_sequences_take_more_and_too_long_ones_are_refused() {
        let [short, long] = [128, 512].map(|n| model_of_length("bert-base", n).expect("a model"));
        assert!(long.flops() > 4 * short.flops(), "attention goes with the square");
        assert_eq!(long.parameters(), short.parameters());
        assert_eq!(model_of_length("bert-base", 513), None);
        assert_eq!(model_of_length("bert-base", 0), None);
        assert_eq!(model_of_length("vgg16", 1), None);
    }
}
