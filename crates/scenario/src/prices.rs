//! Prices of a cluster's parts, and the cost of the cluster that follows from them.

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

/// Default of the time over which purchases are paid off [h].
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
    /// Sizes of what is paid for.
    pub purchase: Purchase,
}

/// Sizes of the hardware that is paid for, as MLPerf Storage lists them beside results.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, Deserialize, JsonSchema)]
pub struct Purchase {
    /// Storages that have prices.
    pub storages: Vec<BoughtStorage>,
    /// Units of rack space that all nodes take.
    pub rack_units: f64,
    /// Power that all nodes draw at most [W]; `None` if the scenario does not say it.
    pub power: Option<f64>,
}

/// Sizes of a storage that is paid for; of a disk in each node, the sum over all nodes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, Deserialize, JsonSchema)]
pub struct BoughtStorage {
    /// Name of the storage.
    pub name: String,
    /// Capacity [B]; `None` if the scenario does not say it.
    pub capacity: Option<f64>,
    /// Total size of the data sets that jobs read from this storage [B].
    pub data: f64,
    /// Units of rack space that it takes; `None` if the scenario does not say it.
    pub rack_units: Option<f64>,
}

/// An item of the bill.
#[derive(Debug, Clone, PartialEq, serde::Serialize, Deserialize, JsonSchema)]
pub struct Priced {
    /// Name, such as `GPUs`.
    pub what: String,
    /// Number of them; not always whole: 1.5 TB.
    pub count: f64,
    /// Price of one: of the purchase, or for an hour.
    pub each: f64,
    /// Whether the price is paid every hour; otherwise it is paid once.
    pub hourly: bool,
    /// Cost of all of them for an hour, with purchases spread over their lifetime.
    pub per_hour: f64,
}

impl Prices {
    /// Returns the cluster's cost for an hour without energy, with purchases spread over their lifetime.
    #[must_use]
    pub fn per_hour(&self) -> f64 {
        self.items.iter().map(|item| item.per_hour).sum()
    }

    /// Returns the sum of all purchases.
    #[must_use]
    pub fn bought(&self) -> f64 {
        self.items.iter().filter(|item| !item.hourly).map(|item| item.count * item.each).sum()
    }

    /// Returns the part of an hour's cost that pays off purchases.
    #[must_use]
    pub fn bought_per_hour(&self) -> f64 {
        self.items.iter().filter(|item| !item.hourly).map(|item| item.per_hour).sum()
    }
}

/// Prices of the parts of the cluster. A price is paid once, `"$180000"`, and then spread over `lifetime`; or it is paid for each hour,
/// month or year: `"$2.50 /h"`. All prices are in the same currency.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PricesSettings {
    /// Price of a node, without its parts that have their own prices (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    node: Field<Price>,
    /// Price of a GPU, such as `"$2.50 /h"` for a GPU-hour (default: none).
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
    /// Prices of storages, by name. A disk in each node is paid for once for each node (default: none).
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
    /// Price of a TB of its `capacity` or, without a capacity, of the data sets that jobs read from it; for a GB's list price write
    /// a thousand times as much (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    tb: Field<Price>,
    /// Price of each GB/s of its bandwidth (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    gb_s: Field<Price>,
    /// Price of each operation per second of its `operations`, as provisioned IOPS are sold (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    iops: Field<Price>,
    /// Units of rack space that the storage takes, paid at `prices.rack_unit` (default: none).
    #[schemars(extend("x-role" = Role::Output))]
    rack_units: Field<Count<1, 1000>>,
}

/// The parts of a scenario that have prices.
#[derive(Clone, Copy)]
pub(super) struct Bought<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) storage: &'a [Storage],
    pub(super) datasets: &'a [Dataset],
    pub(super) jobs: &'a [Job],
}

/// The bill while items are added.
struct Bill<'c> {
    check: Check<'c>,
    currency: Option<String>,
    /// Time over which purchases are paid off [h].
    lifetime: f64,
    items: Vec<Priced>,
    purchase: Purchase,
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
    /// Checks the prices, which stand at `at`, and returns the bill; `None` if they are wrong.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, of: Bought<'_>) -> Option<Prices> {
        let lifetime = self.lifetime.get().map_or(LIFETIME, |time| time.0 / 3600.0);
        let mut bill = Bill {
            check,
            currency: None,
            lifetime,
            items: Vec::new(),
            purchase: Purchase::default(),
            is_wrong: false,
        };
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
        bill.purchase.rack_units = nodes * f64::from(units);
        bill.add(&self.rack_unit, "rack units", nodes * f64::from(units));
        self.power(&mut bill, of.cluster);
        for (name, field) in self.storage.get().map_or(&[][..], |all| &all.0) {
            let Some((at, settings)) = field.given() else { continue };
            settings.add(&mut bill, (at, name), of, &self.rack_unit);
        }
        for (name, field) in self.other.get().map_or(&[][..], |all| &all.0) {
            bill.add(field, name, 1.0);
        }
        let kwh = self.kwh.given().map_or(0.0, |(at, money)| bill.amount(at, money));
        if bill.currency.is_none() && !bill.is_wrong && check.log.number() == 0 {
            let remedy = "write one, such as `prices.gpu = \"$1.20 /h\"`, or remove the table";
            bill.wrong(at, "there is no price in `[prices]`", remedy);
        }
        let Bill { currency, items, purchase, is_wrong, .. } = bill;
        (!is_wrong).then_some(Prices { currency: currency?, lifetime, items, kwh, purchase })
    }

    fn networks(&self, bill: &mut Bill<'_>, cluster: &Cluster) {
        let Some(at) = self.nic_gbit.at else { return };
        let gbits = over_nodes(cluster, |part, n| part.nic * f64::from(part.node.nics) * n / 125e6);
        match gbits.is_finite() {
            true => bill.add(&self.nic_gbit, "Gbit/s of NICs", gbits),
            false => bill.wrong(
                at,
                "the NICs have no bandwidth, which this price is for",
                "write `cluster.network.nic = \"100 Gbit/s\"`, or leave this price out",
            ),
        }
    }

    /// Adds the largest power that the nodes draw.
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
                let what = "this price needs the power of the nodes";
                let remedy = "write `cluster.node.power = { idle = \"300 W\", gpu = \"700 W\" }`, or leave this price out";
                bill.wrong(at, what, remedy);
            }
            return;
        }
        bill.purchase.power = Some(watts);
        bill.add(&self.kw, "kW", watts / 1000.0);
    }
}

impl StoragePriceSettings {
    fn add(
        &self,
        bill: &mut Bill<'_>,
        (at, name): (NodeId, &str),
        of: Bought<'_>,
        rack_unit: &Field<Price>,
    ) {
        let Some(index) = of.storage.iter().position(|storage| storage.name == name) else {
            let names: Vec<&str> = of.storage.iter().map(|storage| &*storage.name).collect();
            let what = format!("there is no storage named {name:?}");
            return bill.wrong(at, &what, &super::names::choose(name, &names));
        };
        let storage = &of.storage[index];
        let path = &storage.path;
        let on_nodes = !path.is_remote() && !path.is_memory();
        let places = if on_nodes { f64::from(of.cluster.nodes) } else { 1.0 };
        bill.add(&self.whole, &format!("storage `{name}`"), places);
        let capacity = storage.tier.and_then(|tier| tier.capacity);
        let data = data_on(index, of);
        let tb = capacity.unwrap_or(data) / 1e12;
        bill.purchase.storages.push(BoughtStorage {
            name: name.to_owned(),
            capacity: capacity.map(|capacity| places * capacity),
            data,
            rack_units: self.rack_units.get().map(|units| places * f64::from(units.small())),
        });
        let of_targets = path.targets.map(|all| f64::from(all.number) * all.bandwidth);
        let gb_s = path.bandwidth.most().min(of_targets.unwrap_or(f64::INFINITY)) / 1e9;
        let own = |key: &str| format!("write its `{key}`, or leave this price out");
        for (field, unit, each, what, remedy) in [
            (
                &self.tb,
                "TB",
                tb,
                "no `capacity`, and no job reads a data set from it",
                own("capacity"),
            ),
            (&self.gb_s, "GB/s", gb_s, "no `bandwidth`, which this price is for", own("bandwidth")),
            (
                &self.iops,
                "IO/s",
                path.operations,
                "no `operations`, which this price is for",
                own("operations"),
            ),
        ] {
            match field.at {
                Some(at) if !each.is_finite() || each <= 0.0 => {
                    bill.wrong(at, &format!("this storage has {what}"), &remedy);
                }
                _ => bill.add(field, &format!("{unit} of `{name}`"), places * each),
            }
        }
        let Some((at, units)) = self.rack_units.given() else { return };
        match rack_unit.at {
            Some(_) => bill.add(
                rack_unit,
                &format!("rack units of `{name}`"),
                places * f64::from(units.small()),
            ),
            None => bill.wrong(
                at,
                "rack units need their price",
                "write `prices.rack_unit = \"$60 /month\"`, or leave `rack_units` out",
            ),
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

/// Returns the sum of `of` over the groups of nodes; `of` takes a cluster with a group's hardware, and the number of its nodes.
fn over_nodes(cluster: &Cluster, of: impl Fn(&Cluster, f64) -> f64) -> f64 {
    let all = 0..cluster.nodes;
    let kinds = cluster.kinds(all.clone());
    let counts = cluster.alike(all).into_iter().map(|range| range.len() as f64);
    kinds.iter().zip(counts).map(|(kind, count)| of(kind, count)).sum()
}
