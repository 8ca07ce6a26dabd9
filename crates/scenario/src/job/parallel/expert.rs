//! Settings of `[job.parallel.expert]`: experts spread over model copies.

use super::method::Method;
use super::parallelism::Parallelism;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::job::model::ModelSettings;
use crate::number::{Amount, Count, Factor, Share};
use crate::role::Role;
use crate::sync::{AlgorithmName, Fidelity};
use forebay_model::device_memory::{Portion, portions};
use forebay_model::units::Size;
use schemars::JsonSchema;

/// Model copies that hold a part of the experts each (D. Lepikhin et al., *GShard*, ICLR 2021, section 3.2): in each layer
/// of experts one all-to-all sends tokens to their experts and another returns the results; backward does the same with
/// gradients.
#[derive(Debug, Clone, PartialEq)]
pub struct Expert {
    /// Number of consecutive model copies that hold all experts together.
    pub ranks: u32,
    /// Number of expert layers in each chunk of the model, in the model's order.
    pub layers: Vec<u32>,
    /// Bytes of the tokens of a batch that a model copy dispatches in one layer; a token counts once for each expert
    /// that it goes to [B].
    pub bytes: f64,
    /// For each chunk, the share of its parameters that belongs to experts.
    pub parameters: Vec<f64>,
    /// For each chunk, the share of its time in which experts compute, if all have the same number of tokens.
    pub time: Vec<f64>,
    /// How many tokens the experts of each rank get.
    pub load: Load,
    /// Algorithm and fidelity of the all-to-alls.
    pub method: Method,
}

impl Expert {
    /// Returns the bytes that each GPU of a model copy dispatches for a micro-batch, including bytes that stay on the
    /// GPU [B]. Every rank is assumed to have as many tokens as the busiest rank, which decides how long the all-to-all
    /// takes.
    #[must_use]
    pub fn bytes_of_each(&self, of: &Parallelism) -> u64 {
        let parts = f64::from(of.micro_batches) * f64::from(of.ranks());
        (self.load.most() * self.bytes / parts).round() as u64
    }

    /// Returns the time that rank number `rank` needs for a part of a pass on a chunk, ÷ the time of the whole pass
    /// with equal loads. The part is from share `from` to share `to` of the pass; `back` is true for backward. Each
    /// layer takes an equal part of the pass. A layer's experts compute at the end of its part in forward, and at the
    /// beginning of its part in backward.
    #[must_use]
    pub fn time_of(&self, rank: u32, (chunk, back): (usize, bool), (from, to): (f64, f64)) -> f64 {
        let number = f64::from(self.layers[chunk]);
        let before: u32 = self.layers[..chunk].iter().sum();
        let (first, last) = ((from * number).floor(), (to * number).ceil().min(number));
        let mut time = to - from;
        for layer in first as u32..last as u32 {
            let (begin, end) = self.experts_compute(chunk, (layer, back));
            let (from, to) = (from.max(begin), to.min(end));
            let place = if back { self.layers[chunk] - 1 - layer } else { layer };
            let load = self.load.of_rank(before + place, rank, self.ranks);
            time += (to - from).max(0.0) * (load - 1.0);
        }
        time
    }

    /// Returns the number of programs (orders of passes and collectives) that each stage needs: one for each rank if the
    /// ranks' experts compute for unequal times, otherwise 1.
    #[must_use]
    pub fn programs(&self) -> u32 {
        match self.load {
            Load::Busiest(most) if most > 1.0 => self.ranks,
            Load::Busiest(_) | Load::Capacity(_) => 1,
        }
    }

    /// Returns the tokens of the busiest rank ÷ the mean over ranks, both summed over all layers of a chunk; the
    /// largest ratio of any chunk.
    #[must_use]
    pub fn most_in_all(&self) -> f64 {
        let Load::Busiest(most) = self.load else { return self.load.most() };
        let rest = self.load.of_rank(1, 0, self.ranks.max(2));
        let of = |layers: &u32| {
            let busiest = f64::from(layers.div_ceil(self.ranks.max(1)));
            (busiest * most + (f64::from(*layers) - busiest) * rest) / f64::from(*layers)
        };
        self.layers.iter().filter(|layers| **layers > 0).map(of).fold(1.0, f64::max)
    }

    /// Returns the interval of a pass, in shares of its time, in which the experts of layer number `layer` compute;
    /// layers are counted in the order of the pass.
    #[must_use]
    pub fn experts_compute(&self, chunk: usize, (layer, back): (u32, bool)) -> (f64, f64) {
        let (number, time) = (f64::from(self.layers[chunk]), self.time[chunk]);
        let (begin, end) = (f64::from(layer), f64::from(layer + 1));
        let (begin, end) = if back { (begin, begin + time) } else { (end - time, end) };
        (begin / number, end / number)
    }
}

/// How many tokens each rank's experts get, ÷ the mean over ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Tokens of the busiest rank ÷ the mean over ranks. The other ranks get equal parts of the remaining tokens. In
    /// layer i, the busiest rank is number i modulo the number of ranks.
    Busiest(f64),
    /// Capacity factor: size of each expert's buffer ÷ the mean number of tokens. Buffers are padded to this size, and
    /// tokens beyond it are dropped (W. Fedus, B. Zoph and N. Shazeer, *Switch Transformers*, JMLR 2022, section 2.2).
    Capacity(f64),
}

impl Load {
    /// Returns the tokens of rank number `rank` of `ranks` in layer number `layer`, ÷ the mean over ranks.
    #[must_use]
    pub fn of_rank(self, layer: u32, rank: u32, ranks: u32) -> f64 {
        match self {
            Self::Capacity(factor) => factor,
            Self::Busiest(most) if layer % ranks.max(1) == rank => most,
            Self::Busiest(most) => (f64::from(ranks) - most) / f64::from(ranks.max(2) - 1),
        }
    }

    /// Returns the tokens of the busiest rank ÷ the mean over ranks.
    #[must_use]
    pub fn most(self) -> f64 {
        match self {
            Self::Capacity(most) | Self::Busiest(most) => most,
        }
    }

    /// Returns the bytes of a simulated all-to-all, in which each rank sends as much as the busiest, ÷ the bytes that
    /// ranks send on average.
    #[must_use]
    pub fn excess(self) -> f64 {
        match self {
            Self::Capacity(_) => 1.0,
            Self::Busiest(most) => most,
        }
    }
}

/// Experts held by several model copies together.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpertSettings {
    /// Model copies that hold all experts together; the number divides the number of experts and the number of model
    /// copies.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    ranks: Field<Count<1, 10_000>>,
    /// Number of expert layers (default: that of the catalogue's mixture-of-experts model).
    #[schemars(extend("x-role" = Role::Identity))]
    layers: Field<Count<0, 100_000>>,
    /// Bytes of a sample's tokens that one layer sends to experts; a token counts once for each expert that it is sent to
    /// (default: those of the catalogue's mixture-of-experts model).
    #[schemars(extend("x-role" = Role::Limit))]
    dispatched: Field<Amount<Size>>,
    /// Share of the model's parameters that belongs to experts (default: that of the catalogue's mixture-of-experts model).
    #[schemars(extend("x-role" = Role::Identity))]
    parameters: Field<Share>,
    /// Share of a step's time in which experts compute (default: that of the catalogue's mixture-of-experts model, by FLOPs).
    #[schemars(extend("x-role" = Role::Identity))]
    time: Field<Share>,
    /// Load imbalance: tokens of the busiest model copy's experts ÷ the mean over model copies, in each layer. No tokens are
    /// dropped. An all-to-all takes as long as if every model copy had as many tokens as the busiest (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    imbalance: Field<Factor>,
    /// Capacity factor: size of each expert's buffer ÷ the mean number of tokens of an expert. Buffers are padded to this size,
    /// and tokens beyond it are dropped (default: no limit).
    #[schemars(extend("x-role" = Role::Choice))]
    capacity_factor: Field<Factor>,
    /// Algorithm of the all-to-alls that dispatch tokens: "flat", from each rank to each other rank directly, "bruck"
    /// or "auto" (default: "auto", as NCCL does).
    #[schemars(extend("x-role" = Role::Choice))]
    algorithm: Field<AlgorithmName>,
    /// How collectives are simulated: "flow", each transfer shares links with all other traffic; "analytic", a
    /// collective takes its time on an idle network; or "auto", "flow" up to a million transfers in a step and
    /// otherwise "analytic" (default: "auto").
    #[schemars(extend("x-role" = Role::Output))]
    fidelity: Field<Fidelity>,
}

impl ExpertSettings {
    /// Returns the checked settings of the table at document node `at`, for a model whose chunks take `shares` of a
    /// step; `None` if they are wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        model: Option<&ModelSettings>,
        (shares, batch): (&[f64], f64),
    ) -> Option<Expert> {
        let ranks = check.required(at, &self.ranks, "ranks", "write `ranks = 8`")?.small();
        let known = model.and_then(ModelSettings::mixture);
        match &known {
            Some((mixture, _)) if !mixture.experts.is_multiple_of(u64::from(ranks)) => {
                let what = format!(
                    "{} experts cannot be divided equally among {ranks} ranks",
                    mixture.experts
                );
                check.wrong(
                    at,
                    what,
                    "write a number of `ranks` that divides the number of experts",
                );
            }
            None if ranks > 1 => self.require(check, at),
            Some(_) | None => {}
        }
        let parts = match (&known, model.and_then(ModelSettings::known)) {
            (Some(_), Some(model)) => portions(&model, shares),
            _ => vec![Portion::default(); shares.len()],
        };
        let layers = match self.layers.get() {
            Some(all) => super::tensor::spread(all.small(), shares),
            None => parts.iter().map(|part| part.dispatches).collect(),
        };
        let of_chunks = |written: &Field<Share>, known: fn(&Portion) -> (f64, f64)| {
            let known = |part: &Portion| match known(part) {
                (of, all) if all > 0.0 => of / all,
                _ => 0.0,
            };
            let Some(written) = written.get() else { return parts.iter().map(known).collect() };
            // The share that is set is of the whole model; chunks without expert layers have a share of 0.
            let has = |layers: &u32| *layers > 0;
            let having = layers.iter().zip(shares).filter(|(layers, _)| has(layers));
            let all: f64 = having.map(|(_, share)| share).sum();
            let share = if all > 0.0 { (written.0 / all).min(1.0) } else { 0.0 };
            layers.iter().map(|layers| if has(layers) { share } else { 0.0 }).collect::<Vec<f64>>()
        };
        let bytes = known.map(|(_, bytes)| bytes);
        let bytes = self.dispatched.get().map(|size| size.0).or(bytes).unwrap_or(0.0);
        let parameters = of_chunks(&self.parameters, |part| (part.experts, part.parameters));
        let time = of_chunks(&self.time, |part| (part.expert_flops, part.flops));
        Some(Expert {
            ranks,
            layers,
            bytes: bytes * batch,
            parameters,
            time,
            load: self.load(check, ranks),
            method: Method::written(&self.algorithm, &self.fidelity),
        })
    }

    fn require(&self, check: Check<'_>, at: NodeId) {
        let remedy = "write `layers = 32`: one for each block that has experts";
        check.required(at, &self.layers, "layers", remedy);
        let remedy = "write `dispatched = \"64 MB\"`, for each sample in one layer";
        check.required(at, &self.dispatched, "dispatched", remedy);
        let remedy = "write `parameters = 0.9`, the experts' share of all parameters";
        check.required(at, &self.parameters, "parameters", remedy);
        let remedy = "write `time = 0.6`, the experts' share of the compute time";
        check.required(at, &self.time, "time", remedy);
    }

    fn load(&self, check: Check<'_>, ranks: u32) -> Load {
        if let Some((at, factor)) = self.capacity_factor.given() {
            check.no_effect(
                self.imbalance.at,
                "`capacity_factor` pads the tokens of every rank to the same number",
            );
            if factor.0 < 1.0 {
                let what = "`capacity_factor` is below 1: experts would lack room for the mean number of tokens";
                check.wrong(at, what, "write 1 or more");
            }
            return Load::Capacity(factor.0);
        }
        let Some((at, factor)) = self.imbalance.given() else { return Load::Busiest(1.0) };
        if !(1.0..=f64::from(ranks)).contains(&factor.0) {
            let what = "`imbalance` must be between 1 and `ranks`: the busiest rank gets at least the mean and at most all \
                        tokens";
            check.wrong(at, what, "write a number from 1 to `ranks`");
        }
        Load::Busiest(factor.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Reduction;

    #[test]
    fn total_tokens_do_not_depend_on_which_rank_is_busiest() {
        for ranks in [2, 4, 8] {
            for layer in 0..9 {
                let load = Load::Busiest(1.5);
                let all: Vec<f64> =
                    (0..ranks).map(|rank| load.of_rank(layer, rank, ranks)).collect();
                assert!((all.iter().sum::<f64>() - f64::from(ranks)).abs() < 1e-12, "{all:?}");
                assert_eq!(
                    all.iter().position(|load| *load == 1.5),
                    Some((layer % ranks) as usize)
                );
            }
        }
        assert_eq!(Load::Busiest(4.0).of_rank(0, 1, 4), 0.0);
        assert_eq!(Load::Busiest(1.0).of_rank(0, 0, 1), 1.0);
        assert_eq!(Load::Capacity(1.25).of_rank(3, 1, 8), 1.25);
    }

    #[test]
    fn experts_take_time_in_proportion_to_their_tokens_forward_and_backward() {
        // System: two layers on two ranks; experts take half of each layer's time. Rank 0 has 1.5 times the mean number of
        // tokens in the first layer and half the mean in the second.
        let expert = Expert {
            ranks: 2,
            layers: vec![2],
            bytes: 0.0,
            parameters: vec![0.5],
            time: vec![0.5],
            load: Load::Busiest(1.5),
            method: Method {
                reduction: Reduction::named(None),
                fidelity: Fidelity::Flow,
                chosen_by: None,
            },
        };
        let of = |rank, back, part| expert.time_of(rank, (0, back), part);
        assert_eq!(of(0, false, (0.0, 1.0)), 1.0);
        assert_eq!([of(0, false, (0.0, 0.5)), of(1, false, (0.0, 0.5))], [0.625, 0.375]);
        assert_eq!([of(0, false, (0.25, 0.5)), of(0, false, (0.5, 0.75))], [0.375, 0.25]);
        assert_eq!([of(0, true, (0.0, 0.25)), of(0, true, (0.5, 0.75))], [0.125, 0.375]);
        assert_eq!(of(0, true, (0.125, 0.625)), 0.5 - 0.0625 + 0.0625);
        // The same two layers as chunks of their own: the busiest rank still changes from one to the other.
        let expert = Expert { layers: vec![1, 1], time: vec![0.5; 2], ..expert };
        let of = |rank, chunk| expert.time_of(rank, (chunk, false), (0.0, 1.0));
        assert_eq!([of(0, 0), of(1, 0), of(0, 1), of(1, 1)], [1.25, 0.75, 0.75, 1.25]);
    }
}
