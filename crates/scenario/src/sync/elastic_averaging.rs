//! How `[job.sync.elastic-averaging]` is written.

use super::Sync;
use super::gradients::{OfModel, filled};
use super::sent::{Precision, Sent};
use super::servers::{Consistency, Number, ServerSettings, Written};
use super::transport::{self, TransportSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use forebay_model::units::Size;
use schemars::JsonSchema;
use serde::Deserialize;

/// Most steps from one exchange to the next.
pub(super) const MOST_STEPS: u64 = 1_000_000;

/// Each model copy trains by itself, and every few steps it and a centre move towards each other: it sends its
/// parameters there and gets the centre's, whatever its gradients were (S. Zhang, A. Choromanska and Y. LeCun,
/// *Deep learning with Elastic Averaging SGD*, NIPS 2015).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ElasticAveragingSettings {
    /// Bytes of all parameters (default: those of the catalogue's model).
    parameters: Field<Positive<Size>>,
    /// In which floats the catalogue's parameters are sent: "fp32" or "fp16" (default: in those of
    /// `model.precision`).
    precision: Field<Precision>,
    /// Steps from one exchange with the centre to the next.
    #[schemars(required)]
    period: Field<Count<1, MOST_STEPS>>,
    /// Whether model copies wait for each other: "synchronous", "asynchronous", or `{ stale = 3 }`: at most 3
    /// exchanges ahead of the slowest (default: "asynchronous").
    consistency: Field<Consistency>,
    /// Servers that the centre is on; each has a part of it (default: 1).
    servers: Field<Number>,
    /// What each is (default: a node of its own, like the others).
    server: Field<ServerSettings>,
    /// What carries them (default: nothing but the links).
    transport: Field<TransportSettings>,
}

impl ElasticAveragingSettings {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        let (tensors, backward) = (Field::default(), Field::default());
        let Self { parameters, precision, .. } = self;
        let sent = Sent {
            key: "parameters",
            bytes: parameters,
            tensors: &tensors,
            precision,
            backward: &backward,
        };
        sent.remark(check, of);
        let period = check.required(at, &self.period, "period", "write `period = 10`");
        let gradients = sent.gradients(check, at, of)?;
        transport::refuse_profile(&self.transport, check);
        transport::remark_servers(&self.transport, check);
        let transport = transport::resolve(&self.transport, check, of.latencies)?;
        // What a step made of all parameters is there at its end.
        let mut buckets = filled(&gradients, f64::INFINITY, f64::INFINITY);
        buckets.iter_mut().for_each(|bucket| bucket.ready = 1.0);
        let servers = Written {
            number: &self.servers,
            server: &self.server,
            consistency: &self.consistency,
            slack: None,
            costly: !transport.cpu.is_none(),
        };
        let servers = servers.resolve(check, at, of, &buckets, &buckets)?;
        Some(Sync {
            servers: Some(servers),
            interval: of.interval(check, at, period?.0)?,
            ..Sync::each_step(buckets, transport)
        })
    }
}
