//! Any placement of ranks on unequal nodes: every byte of the schedule crosses the links between its ranks
//! once.

use super::runs::{simulate, written};
use forebay::collective::{Across, Algorithm, Collective, Levels, Operation};
use forebay::report::Outcome;
use proptest::prelude::*;

/// Bytes of all gradients.
const BYTES: u64 = 12_000_000;

/// Returns a job with `placement` ranks on its nodes; the NICs of all nodes but the first are `slower` times as
/// slow.
fn text(placement: &[u32], slower: u32, keys: &str) -> String {
    let (nodes, others) = (placement.len(), placement.len() - 1);
    format!(
        r#"# Does every byte pass?
name = "placements"
[run]
steps = 3
warm_up = "off"
[cluster]
nodes = 1
node = {{ cores = 8, gpus = 4, intra = {{ kind = "switch", bandwidth = "20 GB/s", latency = "2 us" }} }}
network = {{ nic = "1 GB/s", latency = "10 us" }}
[cluster.group.others]
nodes = {others}
nic = "{} MB/s"
[storage.memory.memory]
[dataset.d]
samples = 100000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = {nodes}
dataset = "d"
storage = "memory"
batch = 8
model.step = "10 ms"
loader.in-memory = {{}}
parallel.data = {{ copies_per_node = {placement:?}, loaders = "per-rank" }}
[job.sync.allreduce]
gradients = "{BYTES} B"
{keys}
"#,
        1000 / slower
    )
}

/// Returns the allreduce of a job with `placement` ranks on its nodes.
fn collective(
    placement: &[u32],
    algorithm: Algorithm,
    inner: Algorithm,
    outer: Algorithm,
) -> Collective {
    let even = placement.windows(2).all(|pair| pair[0] == pair[1]);
    let across = if even { Across::SameIndex } else { Across::Leaders };
    let levels = Levels { groups: placement.to_vec(), inner, outer, across };
    Collective {
        levels: (algorithm == Algorithm::Hierarchical).then_some(levels),
        // Double binary trees are built over nodes.
        nodes: if algorithm == Algorithm::DoubleBinaryTree {
            placement.to_vec()
        } else {
            Vec::new()
        },
        ..Collective::new(Operation::Allreduce, algorithm, placement.iter().sum(), BYTES)
    }
}

/// Returns the bytes of a collective's transfers inside nodes and across.
fn bytes(placement: &[u32], collective: &Collective) -> [u64; 2] {
    let nodes = placement.iter().zip(0..).flat_map(|(&ranks, node)| vec![node; ranks as usize]);
    let nodes: Vec<u32> = nodes.collect();
    let schedule = collective.schedule().expect("can be done");
    let mut sums = [0, 0];
    for transfer in (0..schedule.phases()).flat_map(|phase| schedule.transfers(phase)) {
        let ends = [transfer.from, transfer.to].map(|rank| nodes[rank as usize]);
        sums[usize::from(ends[0] != ends[1])] += transfer.bytes;
    }
    sums
}

fn served(outcome: &Outcome, name: &str) -> f64 {
    outcome.resources.iter().filter(|r| r.name == name).map(|r| r.served).sum()
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Ring),
        Just(Algorithm::BinomialTree),
        Just(Algorithm::RecursiveDoubling),
        Just(Algorithm::HalvingDoubling),
        Just(Algorithm::DoubleBinaryTree),
        Just(Algorithm::Flat),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_byte_of_a_collective_crosses_the_links_between_its_ranks_once(
        placement in prop::collection::vec(1_u32..=4, 2..=5),
        slower in 1_u32..=4,
        grouped: bool,
        inner in algorithm(),
        outer in algorithm(),
    ) {
        // A hierarchy over uneven nodes needs reductions and broadcasts inside a node.
        let reduces = [Operation::Reduce, Operation::Broadcast, Operation::ReduceScatter, Operation::Allgather];
        prop_assume!(!grouped || reduces.iter().all(|operation| inner.offers(*operation)));
        let (whole, keys) = if grouped {
            let names = format!("inner = \"{}\"\nouter = \"{}\"", inner.name(), outer.name());
            let whole = collective(&placement, Algorithm::Hierarchical, inner, outer);
            (whole, format!("algorithm = \"hierarchical\"\n{names}"))
        } else {
            let whole = collective(&placement, outer, outer, outer);
            (whole, format!("algorithm = \"{}\"", outer.name()))
        };
        let run = |fidelity: &str, slower| {
            let keys = format!("{keys}\nfidelity = \"{fidelity}\"");
            simulate(&written(&text(&placement, slower, &keys), &[]))
        };
        let flow = run("flow", slower);
        let [inside, across] = bytes(&placement, &whole).map(|bytes| 3.0 * bytes as f64);
        for (name, expected) in [
            ("node.nic.out", across),
            ("node.nic", across),
            ("node.intra", inside),
            ("node.intra.in", inside),
        ] {
            let found = served(&flow, name);
            prop_assert!((found - expected).abs() <= 1e-9 * BYTES as f64, "{name}: {found}, not {expected}");
        }
        // There is no other traffic, and slower links do not shorten the time.
        let end = |outcome: &Outcome| outcome.jobs[0].steps[2].end;
        let (flow, idle) = (end(&flow), end(&run("analytic", slower)));
        prop_assert!((flow / idle - 1.0).abs() < 1e-6, "{flow}, not {idle}");
        prop_assert!(end(&run("analytic", 1)) <= flow * (1.0 + 1e-9));
    }
}
