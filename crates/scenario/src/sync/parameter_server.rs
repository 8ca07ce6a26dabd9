//! Settings of `[job.sync.parameter-server]`.

use super::Sync;
use super::compression::{self, CompressionSettings};
use super::gradients::{Bucket, Gradient, OfModel, filled};
use super::sent::{MOST_TENSORS, Precision, Sent};
use super::servers::{Consistency, Number, ServerSettings, Written};
use super::transport::{self, TransportSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive, Share};
use crate::role::Role;
use forebay_model::units::Size;
use schemars::JsonSchema;
use serde::Deserialize;

/// Parameter servers hold the parameters: each model copy pushes its gradients to them, and pulls parameters before
/// its next step.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterServerSettings {
    /// Bytes of all parameters; gradients have as many bytes (default: those of the catalogue's model).
    #[schemars(extend("x-role" = Role::Limit))]
    parameters: Field<Positive<Size>>,
    /// Number of tensors of equal size that hold the parameters (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    tensors: Field<Count<1, MOST_TENSORS>>,
    /// Floating-point format in which the parameters and gradients of the catalogue's model are sent: "fp32" or
    /// "fp16" (default: that of `model.precision`).
    #[schemars(extend("x-role" = Role::Choice))]
    precision: Field<Precision>,
    /// Share of a step's time that backward takes, for parameters that are not the catalogue's (default: 2/3).
    #[schemars(extend("x-role" = Role::Identity))]
    backward: Field<Share>,
    /// Bytes of gradients that form a bucket, which is pushed as soon as backward has filled it (default: all
    /// together).
    #[schemars(extend("x-role" = Role::Choice))]
    buckets: Field<Positive<Size>>,
    /// Whether gradients are pushed while backward goes on (default: true).
    #[schemars(extend("x-role" = Role::Choice))]
    overlap: Field<bool>,
    /// Compression of gradients before they are pushed (default: none).
    #[schemars(extend("x-role" = Role::Choice))]
    compression: Field<CompressionSettings>,
    /// Whether model copies wait for each other: "synchronous", "asynchronous", or `{ stale = 3 }`: at most 3
    /// steps ahead of the slowest (default: "synchronous").
    #[schemars(extend("x-role" = Role::Choice))]
    consistency: Field<Consistency>,
    /// Number of servers; each holds a part of the parameters (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    servers: Field<Number>,
    /// Placement and hardware of each server (default: a node of its own, like the cluster's nodes).
    #[schemars(extend("x-role" = Role::Limit))]
    server: Field<ServerSettings>,
    /// Transport that carries gradients and parameters, and its costs in addition to the links' (default: nothing
    /// but the links).
    #[schemars(extend("x-role" = Role::Choice))]
    transport: Field<TransportSettings>,
}

impl ParameterServerSettings {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: &OfModel) -> Option<Sync> {
        self.remark(check, of);
        let gradients = self.sent().gradients(check, at, of)?;
        transport::refuse_profile(&self.transport, check);
        transport::remark_servers(&self.transport, check);
        let transport = transport::resolve(&self.transport, check, of.latencies)?;
        let coding = compression::resolve(&self.compression, check);
        let pulled = self.buckets(&gradients);
        let mut buckets = pulled.clone();
        if let Some(coding) = coding? {
            coding.compress(&mut buckets);
        }
        let servers = Written {
            number: &self.servers,
            server: &self.server,
            consistency: &self.consistency,
            slack: Some(0),
            costly: !transport.cpu.is_none(),
        };
        let servers = servers.resolve(check, at, of, &buckets, &pulled)?;
        Some(Sync {
            servers: Some(servers),
            interval: of.accumulation,
            overlap: self.overlap.get() != Some(&false),
            ..Sync::each_step(buckets, transport)
        })
    }

    fn sent(&self) -> Sent<'_> {
        let Self { parameters, tensors, precision, backward, .. } = self;
        Sent { key: "parameters", bytes: parameters, tensors, precision, backward }
    }

    fn remark(&self, check: Check<'_>, of: &OfModel) {
        self.sent().remark(check, of);
        if let Some(compression) = self.compression.get() {
            compression.remark_servers(check);
        }
        let given = self.parameters.is_written() || of.gradients.is_empty();
        let whole = self.overlap.get() == Some(&false) || !self.buckets.is_written();
        if given && whole {
            check.no_effect(self.backward.at, "nothing is sent during the backward pass");
        }
    }

    fn buckets(&self, gradients: &[Gradient]) -> Vec<Bucket> {
        let least = self.buckets.get().map_or(f64::INFINITY, |size| size.0);
        filled(gradients, least, least)
    }
}
