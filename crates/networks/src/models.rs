//! The networks, operator by operator.

use super::{Feed, Network, Operator, Shape, Update, Windows};

/// Returns the network called `name`; `None` if there is no such network.
pub fn model(name: &str) -> Option<Network> {
    match name {
        "lenet5" => Some(lenet5()),
        "resnet-small" => Some(resnet_small()),
        "resnet50" => Some(bottlenecks(224, 64, &[3, 4, 6, 3], 1000)),
        "transformer-small" => Some(language(256, 64, 128, 4, 2)),
        "gpt-small" => Some(language(256, 1024, 768, 12, 12)),
        _ => None,
    }
}

/// Returns LeNet-5 (LeCun et al., 1998) with ReLU and max pooling, for images of 28 × 28 pixels, which are
/// padded to 32 × 32.
fn lenet5() -> Network {
    let first = Shape { from: 1, to: 6, side: 28, kernel: 5, stride: 1, padding: 2 };
    let second = Shape { from: 6, to: 16, side: 14, kernel: 5, stride: 1, padding: 0 };
    let halve = |channels, side| Windows { channels, side, window: 2, stride: 2, padding: 0 };
    let operators = vec![
        Operator::Conv { shape: first, bias: true },
        Operator::Relu(6 * 28 * 28),
        Operator::MaxPool(halve(6, 28)),
        Operator::Conv { shape: second, bias: true },
        Operator::Relu(16 * 10 * 10),
        Operator::MaxPool(halve(16, 10)),
        Operator::Linear { rows: 1, from: 400, to: 120 },
        Operator::Relu(120),
        Operator::Linear { rows: 1, from: 120, to: 84 },
        Operator::Relu(84),
        Operator::Linear { rows: 1, from: 84, to: 10 },
    ];
    let feed = Feed::Image { values: 28 * 28, classes: 10 };
    Network { feed, operators, update: Update::Momentum { rate: 0.02 } }
}

/// Returns a convolution and the batch norm behind it.
fn normed(shape: Shape) -> [Operator; 2] {
    let plane = shape.out() * shape.out();
    [Operator::Conv { shape, bias: false }, Operator::BatchNorm { channels: shape.to, plane }]
}

/// Returns convolutions, each with a batch norm behind it, and a ReLU between them.
fn chain(shapes: &[Shape]) -> Vec<Operator> {
    let mut body = Vec::new();
    for (i, &shape) in shapes.iter().enumerate() {
        if i > 0 {
            body.push(Operator::Relu(shape.from * shape.side * shape.side));
        }
        body.extend(normed(shape));
    }
    body
}

/// Returns a residual connection around a body. Its shortcut is a 1 × 1 convolution if the body changes the
/// shape, otherwise x itself.
fn round(body: &[Shape]) -> Operator {
    let (first, last) = (body[0], body[body.len() - 1]);
    let direct = Shape {
        to: last.to,
        kernel: 1,
        padding: 0,
        stride: first.side.div_ceil(last.out()),
        ..first
    };
    let changes = direct.stride != 1 || first.from != last.to;
    let shortcut = if changes { normed(direct).into() } else { Vec::new() };
    Operator::Residual { body: chain(body), shortcut }
}

/// Returns a residual block of two convolutions of 3 × 3; a `stride` of 2 halves the side.
pub fn residual_block(from: usize, to: usize, side: usize, stride: usize) -> Operator {
    let first = Shape { from, to, side, kernel: 3, stride, padding: 1 };
    round(&[first, Shape { from: to, side: first.out(), stride: 1, ..first }])
}

/// Returns a residual block of convolutions of 1 × 1, 3 × 3 and 1 × 1, the last with four times as many
/// channels; a `stride` of 2 in the second one halves the side.
fn bottleneck(from: usize, width: usize, side: usize, stride: usize) -> Operator {
    let narrow = Shape { from, to: width, side, kernel: 1, stride: 1, padding: 0 };
    let middle = Shape { from: width, to: width, side, kernel: 3, stride, padding: 1 };
    let wide = Shape { from: width, to: 4 * width, side: middle.out(), ..narrow };
    round(&[narrow, middle, wide])
}

/// Returns the residual network of He et al. (2016) for 32 × 32 pixels with 6n + 2 layers, n = 1. A shortcut
/// that changes the shape is a 1 × 1 convolution.
fn resnet_small() -> Network {
    let stem = Shape { from: 3, to: 16, side: 32, kernel: 3, stride: 1, padding: 1 };
    let mut operators = chain(&[stem]);
    operators.push(Operator::Relu(16 * 32 * 32));
    for (from, to, side, stride) in [(16, 16, 32, 1), (16, 32, 32, 2), (32, 64, 16, 2)] {
        let block = residual_block(from, to, side, stride);
        let values = block.outputs();
        operators.extend([block, Operator::Relu(values)]);
    }
    operators.push(Operator::Average { channels: 64, plane: 8 * 8 });
    operators.push(Operator::Linear { rows: 1, from: 64, to: 10 });
    let feed = Feed::Image { values: 3 * 32 * 32, classes: 10 };
    Network { feed, operators, update: Update::Momentum { rate: 0.02 } }
}

/// Returns the residual network of He et al. (2016) with bottleneck blocks, on images of `side` × `side`.
/// `blocks` holds the number of blocks in each stage, for at most four stages; the width doubles from stage
/// to stage. The stride is in the 3 × 3 convolution, as frameworks have it. ResNet-50 has a side of 224, a
/// width of 64 and 3, 4, 6, 3 blocks.
pub fn bottlenecks(side: usize, width: usize, blocks: &[usize], classes: usize) -> Network {
    let stem = Shape { from: 3, to: width, side, kernel: 7, stride: 2, padding: 3 };
    let pool = Windows { channels: width, side: stem.out(), window: 3, stride: 2, padding: 1 };
    let mut operators = chain(&[stem]);
    operators.push(Operator::Relu(width * stem.out() * stem.out()));
    operators.push(Operator::MaxPool(pool));
    let (mut from, mut now) = (width, pool.out());
    for (stage, &count) in blocks.iter().enumerate() {
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let width = width << stage;
            operators.push(bottleneck(from, width, now, stride));
            (from, now) = (4 * width, (now - 1) / stride + 1);
            operators.push(Operator::Relu(from * now * now));
        }
    }
    operators.push(Operator::Average { channels: from, plane: now * now });
    operators.push(Operator::Linear { rows: 1, from, to: classes });
    let feed = Feed::Image { values: 3 * side * side, classes };
    Network { feed, operators, update: Update::Momentum { rate: 0.02 } }
}

/// Returns a block of a transformer with layer norms first: attention, then two linear layers with four times
/// the width between them.
pub fn encoder(length: usize, width: usize, heads: usize) -> [Operator; 2] {
    let linear = |from, to| Operator::Linear { rows: length, from, to };
    let norm = || Operator::LayerNorm { rows: length, width };
    let attend = vec![
        norm(),
        linear(width, 3 * width),
        Operator::Attention { heads, length, width },
        linear(width, width),
    ];
    let think = vec![
        norm(),
        linear(width, 4 * width),
        Operator::Gelu(length * 4 * width),
        linear(4 * width, width),
    ];
    [attend, think].map(|body| Operator::Residual { body, shortcut: Vec::new() })
}

/// Returns a language model with the architecture of GPT-2 (Radford et al., 2019), but with an output layer
/// that has weights of its own. The smallest GPT-2 has a length of 1024, a width of 768, 12 heads and 12
/// blocks. With bytes as tokens (256 kinds) instead of its vocabulary, the blocks take most of the time.
pub fn language(kinds: usize, length: usize, width: usize, heads: usize, blocks: usize) -> Network {
    let mut operators = vec![Operator::Embedding { tokens: kinds, length, width }];
    for _ in 0..blocks {
        operators.extend(encoder(length, width, heads));
    }
    operators.push(Operator::LayerNorm { rows: length, width });
    operators.push(Operator::Linear { rows: length, from: width, to: kinds });
    let feed = Feed::Tokens { length, kinds };
    Network { feed, operators, update: Update::Adam { rate: 1e-3 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each operator puts out as many values as the next one takes.
    fn fits(operators: &[Operator]) {
        for pair in operators.windows(2) {
            assert_eq!(pair[0].outputs(), pair[1].inputs(), "{pair:?}");
        }
        for operator in operators {
            if let Operator::Residual { body, shortcut } = operator {
                fits(body);
                fits(shortcut);
                let side = shortcut.last().map_or(operator.inputs(), Operator::outputs);
                assert_eq!(operator.outputs(), side, "{operator:?}");
            }
        }
    }

    #[test]
    fn inputs_of_operators_match_outputs_of_their_predecessors() {
        for name in ["lenet5", "resnet-small", "resnet50", "transformer-small", "gpt-small"] {
            let network = model(name).expect("a model");
            fits(&network.operators);
            let (values, targets) = network.feed.sizes();
            assert_eq!(network.operators[0].inputs(), values, "{name}");
            let last = network.operators.last().map(Operator::outputs);
            assert_eq!(last, Some(targets * network.feed.kinds()), "{name}");
        }
        assert_eq!(model("vgg"), None);
    }
}
