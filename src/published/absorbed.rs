//! Compares fitted rates with the nominal rates of the hardware.
//!
//! A fit chooses whatever values reproduce the results. If a fitted rate is far below the link's rate, the link does not
//! explain it: the rate then stands for sums on a CPU, copies through the host, an input pipeline or a framework. Such a rate
//! still predicts other models better than the link's rate: VGG-16 over Horovod's MPI is predicted 12 % off with the rate fitted to
//! ResNet-101, and 231 % off with the link's.

use super::constants::Constants;
use super::scenario::{beyond, inside, network};
use super::{Cluster, Published, PublishedResult};

/// Maximum ratio of a link's nominal rate to a fitted rate at which the link still explains the fitted rate: protocols and
/// headers cost tens of percent, not half.
const MOST: f64 = 2.0;

/// The transfers that a fitted rate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Transfers inside a node.
    Inside,
    /// Transfers between GPUs of a node that are not joined directly.
    Between,
    /// Transfers between nodes.
    Across,
}

/// A fitted rate that is far below the rate of its link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Absorbed {
    /// The transfers that the rate limits.
    pub limit: Limit,
    /// Fitted rate [B/s].
    pub fitted: f64,
    /// Nominal rate of the link [B/s].
    pub sold: f64,
}

impl Limit {
    /// All limits.
    const ALL: [Limit; 3] = [Limit::Inside, Limit::Between, Limit::Across];

    /// Returns the limit in words, for messages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Limit::Inside => "inside a node",
            Limit::Between => "between GPUs that are not joined",
            Limit::Across => "across",
        }
    }

    /// Returns the key of a scenario that sets this rate.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Limit::Inside => "per_stream_inside",
            Limit::Between => "uplink",
            Limit::Across => "per_stream",
        }
    }

    /// Returns the fitted rate [B/s]; infinite if none was fitted.
    #[must_use]
    pub fn fitted(self, constants: &Constants) -> f64 {
        match self {
            Limit::Inside => constants.inside,
            Limit::Between => constants.between,
            Limit::Across => constants.across,
        }
    }

    fn sold(self, cluster: &Cluster) -> Option<f64> {
        match self {
            Limit::Inside => Some(inside(cluster)),
            Limit::Between => beyond(cluster),
            Limit::Across => network(cluster),
        }
    }
}

impl Absorbed {
    /// Returns the ratio of the link's rate to the fitted rate.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.sold / self.fitted
    }
}

/// Returns the rates in `constants` that are not explained by the links of the clusters on which `results` were measured.
pub(super) fn absorbed(
    published: &Published,
    results: &[&PublishedResult],
    constants: &Constants,
) -> Vec<Absorbed> {
    let of = |limit: Limit| {
        let clusters = results.iter().map(|result| &published.clusters[&result.cluster]);
        let sold = clusters.filter_map(|cluster| limit.sold(cluster)).reduce(f64::min)?;
        let absorbed = Absorbed { limit, fitted: limit.fitted(constants), sold };
        (absorbed.factor() > MOST).then_some(absorbed)
    };
    Limit::ALL.into_iter().filter_map(of).collect()
}
