//! Prices of a cluster, and what the cluster of a scenario costs by them.

use super::check::Check;
use super::document::NodeId;
use super::field::{Field, Named};
use super::money::{HOURS_OF_MONTH, Money, Price};
use super::number::{Count, Positive};
use super::{Cluster, Dataset, Job, Storage};
use crate::role::Role;
use forebay_model::units::LongTime;
use schemars::JsonSchema;
use serde::Deserialize;

/// Time over which what is bought is paid off, unless the scenario says another [h].
const LIFETIME: f64 = 48.0 * HOURS_OF_MONTH;

/// What the cluster of a scenario costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// Currency of all amounts, as written.
    pub currency: String,
    /// Time over which purchases are paid off [h].
    pub lifetime: f64,
    /// What is paid for, in the order of the keys.
    pub items: Vec<Priced>,
    /// Price of a kWh of electrical energy.
    pub kwh: f64,
}

/// A part of the cluster that is paid for.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Priced {
    /// What it is, in words: `GPUs`.
    pub what: String,
    /// How many there are.
    pub count: f64,
    /// Price of each: of the purchase, or for an hour.
    pub each: f64,
    /// Whether the price is for an hour; otherwise it is paid once.
    pub hourly: bool,
    /// What all of them cost for an hour, purchases spread over the lifetime.
    pub per_hour: f64,
}

impl Prices {
    /// Returns what the cluster costs for an hour without energy, purchases spread over their lifetime.
    #[must_use]
    pub fn per_hour(&self) -> f64 {
        self.items.iter().map(|item| item.per_hour).sum()
    }

    /// Returns the sum of all purchases.
    #[must_use]
    pub fn bought(&self) -> f64 {
        self.items.iter().filter(|item| !item.hourly).map(|item| item.count * item.each).sum()
    }
}

/// Prices of the parts of the cluster. A price is paid once, `"$180000"`, and then spread over `lifetime`; or it is paid for each hour,
/// month or year: `"$2.50 /h"`. All have the same currency, which nothing converts.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PricesSettings {
    /// Price of a node, without what has a price of its own (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    node: Field<Price>,
    /// Price of a GPU (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    gpu: Field<Price>,
    /// Price of a core (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    core: Field<Price>,
    /// Price of each Gbit/s of a node's NICs, for the faster network that they need (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    nic_gbit: Field<Price>,
    /// Price of a unit of rack space (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    rack_unit: Field<Price>,
    /// Units of rack space that a node takes (default: 1).
    #[schemars(extend("x-role" = Role::Output))]
    rack_units: Field<Count<1, 1000>>,
    /// Price of a kW of the power that all nodes draw at most, for circuits and cooling; needs `cluster.node.power` (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    kw: Field<Price>,
    /// Price of a kWh of the energy that nodes use; needs `cluster.node.power` (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    kwh: Field<Money>,
    /// Prices of storages, by name. What stands in each node is paid for once for each node (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    storage: Field<Named<StoragePriceSettings>>,
    /// Prices of other things, by name: `switches = "$40000"` (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    other: Field<Named<Price>>,
    /// Time over which purchases are paid off (default: 4 y).
    #[schemars(extend("x-role" = Role::Output))]
    lifetime: Field<Positive<LongTime>>,
}

/// Prices of a storage.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoragePriceSettings {
    /// Price of the storage as a whole (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    whole: Field<Price>,
    /// Price of a TB of its capacity or, where that is not written, of the data sets that jobs read from it (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    tb: Field<Price>,
    /// Price of each GB/s of its bandwidth (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    gb_s: Field<Price>,
}

/// The parts of a scenario that have prices.
#[derive(Clone, Copy)]
pub(super) struct Bought<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) storage: &'a [Storage],
    pub(super) datasets: &'a [Dataset],
    pub(super) jobs: &'a [Job],
}

/// The list of what is paid for, while it is being made.
struct Bill<'c> {
    check: Check<'c>,
    currency: Option<String>,
    lifetime: f64,
    items: Vec<Priced>,
    is_wrong: bool,
}

impl Bill<'_> {
    /// Returns the amount; records a problem if its currency is not that of the others.
    fn amount(&mut self, at: NodeId, money: &Money) -> f64 {
        let currency = self.currency.get_or_insert_with(|| money.currency.clone()).clone();
        if currency != money.currency {
            let what = format!("this price is in {}, and others are in {currency}", money.currency);
            self.wrong(at, &what, &format!("write all prices in {currency}"));
        }
        money.amount
    }

    fn wrong(&mut self, at: NodeId, what: &str, remedy: &str) {
        self.check.wrong(at, what, remedy);
        self.is_wrong = true;
    }

    /// Adds `count` parts at the price in `field`, if there is one.
    fn add(&mut self, field: &Field<Price>, what: &str, count: f64) {
        let Some((at, price)) = field.given() else { return };
        let each = self.amount(at, &price.money);
        let hours = if price.is_hourly { 1.0 } else { self.lifetime };
        let per_hour = count * each / hours;
        let (what, hourly) = (what.to_owned(), price.is_hourly);
        self.items.push(Priced { what, count, each, hourly, per_hour });
    }
}

impl PricesSettings {
    /// Checks the prices and returns what the cluster costs by them; `None` if they are wrong.
    pub(super) fn resolve(&self, check: Check<'_>, of: Bought<'_>) -> Option<Prices> {
        let lifetime = self.lifetime.get().map_or(LIFETIME, |time| time.0 / 3600.0);
        let mut bill = Bill { check, currency: None, lifetime, items: Vec::new(), is_wrong: false };
        let nodes = f64::from(of.cluster.nodes);
        bill.add(&self.node, "nodes", nodes);
        bill.add(
            &self.gpu,
            "GPUs",
            over_nodes(of.cluster, |part, n| f64::from(part.node.gpus) * n),
        );
        bill.add(
            &self.core,
            "cores",
            over_nodes(of.cluster, |part, n| f64::from(part.node.cores) * n),
        );
        self.networks(&mut bill, of.cluster);
        let units = self.rack_units.get().map_or(1, |units| units.small());
        bill.add(&self.rack_unit, "rack units", nodes * f64::from(units));
        self.power(&mut bill, of.cluster);
        for (name, field) in self.storage.get().map_or(&[][..], |all| &all.0) {
            let Some((at, settings)) = field.given() else { continue };
            settings.add(&mut bill, (at, name), of);
        }
        for (name, field) in self.other.get().map_or(&[][..], |all| &all.0) {
            bill.add(field, name, 1.0);
        }
        let kwh = self.kwh.given().map_or(0.0, |(at, money)| bill.amount(at, money));
        let Bill { currency, items, is_wrong, .. } = bill;
        let currency = currency.unwrap_or_default();
        (!is_wrong).then_some(Prices { currency, lifetime, items, kwh })
    }

    fn networks(&self, bill: &mut Bill<'_>, cluster: &Cluster) {
        let Some(at) = self.nic_gbit.at else { return };
        let gbits = over_nodes(cluster, |part, n| part.nic * f64::from(part.node.nics) * n / 125e6);
        match gbits.is_finite() {
            true => bill.add(&self.nic_gbit, "Gbit/s of NICs", gbits),
            false => bill.wrong(
                at,
                "the NICs have no bandwidth that a price could be for",
                "write `cluster.network.nic = \"100 Gbit/s\"`, or leave this price out",
            ),
        }
    }

    /// Adds the power that nodes draw at most.
    fn power(&self, bill: &mut Bill<'_>, cluster: &Cluster) {
        let watts = over_nodes(cluster, |part, n| {
            let node = &part.node;
            let most = node.power.map(|power| {
                power.idle + power.gpu * f64::from(node.gpus) + power.core * f64::from(node.cores)
            });
            most.unwrap_or(f64::NAN) * n
        });
        if watts.is_nan() {
            for at in [self.kw.at, self.kwh.at].into_iter().flatten() {
                let what = "the power of the nodes is not known";
                let remedy = "write `cluster.node.power = { idle = \"300 W\", gpu = \"700 W\" }`, or leave this price out";
                bill.wrong(at, what, remedy);
            }
            return;
        }
        bill.add(&self.kw, "kW", watts / 1000.0);
    }
}

impl StoragePriceSettings {
    fn add(&self, bill: &mut Bill<'_>, (at, name): (NodeId, &str), of: Bought<'_>) {
        let Some(index) = of.storage.iter().position(|storage| storage.name == name) else {
            let names: Vec<&str> = of.storage.iter().map(|storage| &*storage.name).collect();
            let what = format!("there is no storage named {name:?}");
            return bill.wrong(at, &what, &super::names::choose(name, &names));
        };
        let storage = &of.storage[index];
        let on_nodes = !storage.path.is_remote() && !storage.path.is_memory();
        let places = if on_nodes { f64::from(of.cluster.nodes) } else { 1.0 };
        bill.add(&self.whole, &format!("storage `{name}`"), places);
        let capacity = storage.tier.and_then(|tier| tier.capacity);
        let bytes = capacity.unwrap_or_else(|| data_on(index, of));
        bill.add(&self.tb, &format!("TB of `{name}`"), places * bytes / 1e12);
        let of_targets = storage.path.targets.map(|all| f64::from(all.number) * all.bandwidth);
        let bandwidth = storage.path.bandwidth.most().min(of_targets.unwrap_or(f64::INFINITY));
        match self.gb_s.at {
            Some(at) if !bandwidth.is_finite() => bill.wrong(
                at,
                "this storage has no bandwidth that a price could be for",
                "write its `bandwidth`, or leave this price out",
            ),
            _ => bill.add(&self.gb_s, &format!("GB/s of `{name}`"), places * bandwidth / 1e9),
        }
    }
}

/// Returns the size of the data sets that jobs read from a storage, each once [B].
#[expect(clippy::cast_precision_loss, reason = "a price needs no more digits")]
fn data_on(storage: usize, of: Bought<'_>) -> f64 {
    let reads = |dataset: usize| {
        of.jobs.iter().any(|job| job.dataset == dataset && job.reads_from() == storage)
    };
    let all = of.datasets.iter().enumerate().filter(|(index, _)| reads(*index));
    all.map(|(_, dataset)| dataset.samples as f64 * dataset.mean_size()).sum()
}

/// Returns the sum over nodes with the same hardware; `of` gets a cluster of this hardware, and the number of its nodes.
fn over_nodes(cluster: &Cluster, of: impl Fn(&Cluster, f64) -> f64) -> f64 {
    let all = 0..cluster.nodes;
    let kinds = cluster.kinds(all.clone());
    let counts = cluster.alike(all).into_iter().map(|range| range.len() as f64);
    kinds.iter().zip(counts).map(|(kind, count)| of(kind, count)).sum()
}
