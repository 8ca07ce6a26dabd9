//! Settings of `pin_memory`, and the stages behind PyTorch's workers: pinning, and copies to devices.

use super::{Operation, Order, Stage, Unit};
use crate::check::Check;
use crate::distribution::or_table::{Table, TimeOr};
use crate::distribution::settings::Varying;
use crate::field::Field;
use crate::number::{Positive, Share};
use crate::role::Role;
use forebay_model::units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Work of the single pinning thread for each batch.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinSettings {
    /// Core-seconds for each batch, in addition to the copy of its bytes (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    work: Field<Varying<Time>>,
    /// Rate at which the thread copies the decoded bytes of a batch (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<Positive<Bandwidth>>,
    /// Share of the thread's computing in which it holds the interpreter's lock of the trainer, for which it
    /// competes with `launch` and with workers that are threads (default: 0).
    #[schemars(extend("x-role" = Role::Limit))]
    gil: Field<Share>,
}

impl Table for PinSettings {
    const KEYS: &'static [&'static str] = &["work", "bandwidth", "gil"];
    const WHAT: &'static str = "what the pinning thread does with a batch: core-seconds, or by its \
                                bytes";
}

/// Returns a stage of whole batches behind workers that make batches on request. Its buffer holds all `ahead`
/// requested batches, so that no batch waits for room.
fn stage(name: &str, per_item: Vec<Operation>, ahead: u64, lock: f64) -> Stage {
    Stage {
        name: name.to_owned(),
        workers: 1,
        unit: Unit::Batch,
        per_sample: Vec::new(),
        per_item,
        order: Order::Any,
        buffer: ahead.max(1),
        lock,
        ..Stage::default()
    }
}

/// Returns the stage of the pinning thread; `Some(None)` if there is no such thread, `None` if its settings are
/// invalid.
pub(super) fn pinning(
    written: &Field<TimeOr<PinSettings>>,
    check: Check<'_>,
    ahead: u64,
) -> Option<Option<Stage>> {
    let Some((at, settings)) = written.given() else { return Some(None) };
    let pin = match settings {
        TimeOr::Time(work) => {
            let work = Operation::Compute(work.resolve(check, at)?);
            stage("pin", vec![work], ahead, 0.0)
        }
        TimeOr::Table(table) => {
            let work = super::settings::optional(&table.work, check, Operation::Compute)?;
            let bytes = table.bandwidth.get().map(|rate| Operation::Memcpy(1.0 / rate.0));
            let lock = table.gil.get().map_or(0.0, |share| share.0);
            stage("pin", work.into_iter().chain(bytes).collect(), ahead, lock)
        }
    };
    Some(Some(pin))
}

/// Returns the stage that copies pinned batches to the devices while steps run, with as many copies at once as
/// there are devices.
pub(super) fn copying(devices: u32, ahead: u64) -> Stage {
    Stage { workers: devices, ..stage("copy", vec![Operation::Copy], ahead, 0.0) }
}
