//! Settings of `[job.sync.elastic-averaging]`.

use super::Sync;
use super::gradients::{OfModel, filled};
use super::sent::{Precision, Sent};
use super::servers::{Consistency, Number, ServerSettings, Written};
use super::transport::{self, TransportSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::units::Size;
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum number of steps from one exchange to the next.
pub(super) const MOST_STEPS: u64 = 1_000_000;

/// Each model copy trains by itself, and every few steps it and a centre, a model that all share, move towards each
/// other. The model copy sends its parameters to the centre and gets the parameters of the centre; gradients are
/// not sent (S. Zhang, A. Choromanska and Y. LeCun, *Deep learning with Elastic Averaging SGD*, NIPS 2015).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ElasticAveragingSettings {
    /// Bytes of all parameters (default: those of the catalogue's model).
    #[schemars(extend("x-role" = Role::Limit))]
    parameters: Field<Positive<Size>>,
    /// Floating-point format in which the parameters of the catalogue's model are sent: "fp32" or "fp16" (default:
    /// that of `model.precision`).
    #[schemars(extend("x-role" = Role::Choice))]
    precision: Field<Precision>,
    /// Steps from one exchange with the centre to the next.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    period: Field<Count<1, MOST_STEPS>>,
    /// Whether model copies wait for each other: "synchronous", "asynchronous", or `{ stale = 3 }`: at most 3
    /// exchanges ahead of the slowest (default: "asynchronous").
    #[schemars(extend("x-role" = Role::Choice))]
    consistency: Field<Consistency>,
    /// Number of servers that hold the centre; each holds a part of it (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    servers: Field<Number>,
    /// Placement and hardware of each server (default: a node of its own, like the cluster's nodes).
    #[schemars(extend("x-role" = Role::Limit))]
    server: Field<ServerSettings>,
    /// Transport that carries the parameters, and its costs in addition to the links' (default: nothing but the
    /// links).
    #[schemars(extend("x-role" = Role::Choice))]
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
        // All parameters are complete only at the end of a step.
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
