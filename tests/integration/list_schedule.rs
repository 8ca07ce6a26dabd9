//! A reference model for pipeline schedules: each pass begins as soon as its stage is free and its inputs have
//! arrived.

use std::collections::BTreeMap;

/// Passes of each stage in order, as a letter and a chunk each: forward (F), backward or gradients of inputs
/// (B), gradients of weights (W).
pub(crate) type Orders = Vec<Vec<(char, usize)>>;

pub(crate) fn interleaved_orders(stages: usize, chunks: usize, micro: usize) -> Orders {
    let all = micro * chunks;
    let forward = |k: usize| ('F', k / stages % chunks);
    let backward = |k: usize| ('B', chunks - 1 - k / stages % chunks);
    let of = |stage: usize| {
        let ahead = ((stages - stage - 1) * 2 + (chunks - 1) * stages).min(all);
        let pairs = (ahead..all).flat_map(|k| [forward(k), backward(k - ahead)]);
        (0..ahead).map(forward).chain(pairs).chain((all - ahead..all).map(backward)).collect()
    };
    (0..stages).map(of).collect()
}

/// Returns the order of GPipe: all forward passes first.
pub(crate) fn gpipe_orders(stages: usize, micro: usize) -> Orders {
    vec![[vec![('F', 0); micro], vec![('B', 0); micro]].concat(); stages]
}

/// Returns the order of 1F1B: the last stage begins backward at once, each stage before it one micro-batch later.
pub(crate) fn one_by_one_orders(stages: usize, micro: usize) -> Orders {
    let of = |stage: usize| {
        let ahead = (stages - stage - 1).min(micro);
        let mut order = vec![('F', 0); ahead];
        order.extend([('F', 0), ('B', 0)].repeat(micro - ahead));
        order.extend(vec![('B', 0); ahead]);
        order
    };
    (0..stages).map(of).collect()
}

/// Returns the zero-bubble order: after its first forward passes each stage computes gradients of inputs as
/// soon as it can, and gradients of weights only when it would otherwise have more than `stages` micro-batches
/// in progress.
pub(crate) fn zero_bubble_orders(stages: usize, micro: usize) -> Orders {
    let of = |stage: usize| {
        let mut order = vec![('F', 0); (stages - stage).min(micro)];
        let (mut forward, mut weights) = (order.len(), 0);
        for inputs in 1..=micro {
            order.push(('B', 0));
            if inputs > stage {
                order.push(('W', 0));
                weights += 1;
            }
            if forward < micro {
                order.push(('F', 0));
                forward += 1;
            }
        }
        order.extend(vec![('W', 0); micro - weights]);
        order
    };
    (0..stages).map(of).collect()
}

/// Returns the order of ZB-V, whose stages have the chunks i and 2 p − 1 − i: made for at least 2 p − 1 micro-batches;
/// passes beyond `micro` are left out.
pub(crate) fn v_shaped_orders(stages: usize, micro: usize) -> Orders {
    let of = |stage: usize| {
        let all = micro.max(2 * stages - 1);
        let mut made: BTreeMap<(char, usize), usize> = BTreeMap::new();
        let mut order = Vec::new();
        let mut does = |pass, chunk| {
            let number = made.entry((pass, chunk)).or_default();
            order.extend((*number < micro).then_some((pass, chunk)));
            *number += 1;
            *number
        };
        let mut forward = 0;
        while forward < 2 * (stages - stage) - 1 {
            forward = does('F', 0);
        }
        for _ in 0..stage {
            does('F', 1);
            forward = does('F', 0);
        }
        let mut returned = 0;
        while returned < stages - stage {
            does('F', 1);
            returned = does('B', 1);
            does('W', 1);
        }
        let (mut second, mut first) = (stages, 0);
        while second < all {
            if forward < all {
                forward = does('F', 0);
            }
            first = does('B', 0);
            does('W', 0);
            second = does('F', 1);
            does('B', 1);
            does('W', 1);
        }
        for _ in 0..stage {
            first = does('B', 0);
            does('B', 1);
        }
        while first < all {
            first = does('B', 0);
            does('W', 0);
        }
        for chunk in [1, 0] {
            while does('W', chunk) < all {}
        }
        order
    };
    (0..stages).map(of).collect()
}

/// How long a message between stages uses its link, and how much later it arrives [s].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    pub(crate) bytes: f64,
    pub(crate) latency: f64,
}

/// Returns when the last pass ends, if each begins as soon as its stage has ended the one before and its inputs
/// have arrived [s]. `place` is the position of a stage's chunk in the model, `long` the duration of a pass on
/// the chunk at a position. Messages leave one after the other in each direction; a link is free for the next
/// one while the latency passes. Nothing leaves a stage for the stage itself.
pub(crate) fn list_schedule(
    orders: &Orders,
    place: impl Fn(usize, usize) -> usize,
    long: impl Fn(char, usize) -> f64,
    link: Link,
) -> f64 {
    let stages = orders.len();
    let chunks = orders.iter().flatten().map(|(_, chunk)| chunk + 1).max().unwrap_or(1);
    let owners: BTreeMap<usize, usize> = (0..stages)
        .flat_map(|stage| (0..chunks).map(move |chunk| (stage, chunk)))
        .map(|(stage, chunk)| (place(stage, chunk), stage))
        .collect();
    let last = owners.len() - 1;
    let mut there: BTreeMap<(char, usize, usize), f64> = BTreeMap::new();
    let mut free = vec![0.0_f64; stages];
    let mut line: BTreeMap<(char, usize), f64> = BTreeMap::new();
    let mut at = vec![0; stages];
    let mut done: BTreeMap<(char, usize), usize> = BTreeMap::new();
    while let Some(stage) = (0..stages).find(|stage| {
        let Some((pass, chunk)) = orders[*stage].get(at[*stage]).copied() else { return false };
        let place = place(*stage, chunk);
        let number = done.get(&(pass, place)).copied().unwrap_or(0);
        // The last chunk's own forward pass comes before its backward pass in every order.
        let own = (pass == 'F' && place == 0) || (pass == 'B' && place == last) || pass == 'W';
        own || there.contains_key(&(pass, place, number))
    }) {
        let (pass, chunk) = orders[stage][at[stage]];
        let place = place(stage, chunk);
        let number = done.entry((pass, place)).or_default();
        let begin = there.get(&(pass, place, *number)).map_or(free[stage], |t| t.max(free[stage]));
        let end = begin + long(pass, place);
        let next = match pass {
            'F' if place < last => Some(place + 1),
            'B' => place.checked_sub(1),
            _ => None,
        };
        if let Some(next) = next {
            let arrival = if owners[&next] == stage {
                end
            } else {
                let line = line.entry((pass, stage)).or_default();
                *line = line.max(end) + link.bytes;
                *line + link.latency
            };
            there.insert((pass, next, *number), arrival);
        }
        *number += 1;
        (free[stage], at[stage]) = (end, at[stage] + 1);
    }
    assert!(at.iter().zip(orders).all(|(at, order)| *at == order.len()), "all is done: {at:?}");
    free.into_iter().fold(0.0, f64::max)
}
