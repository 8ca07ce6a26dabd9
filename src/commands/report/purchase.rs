//! What is bought, in the columns of MLPerf Storage: usable capacity, rack units, power and price.

use super::read::number;
use crate::page::{Block, Cell, Column, Part, Table};
use crate::report::format::{bytes, count, prefixed};
use crate::report::money;
use crate::scenario::{BoughtStorage, Priced, Purchase};
use serde_json::Value;

/// An option or a scenario with its costs.
pub(super) struct Bought {
    pub(super) name: String,
    pub(super) purchase: Option<Purchase>,
    /// Items of the bill.
    pub(super) items: Vec<Priced>,
    /// Cost of a month.
    pub(super) month: Option<f64>,
    pub(super) currency: String,
}

impl Bought {
    /// Reads `cost` of a report; `None` without it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn of_report(name: &str, report: &Value) -> Result<Option<Bought>, String> {
        #[derive(serde::Deserialize)]
        struct Cost {
            currency: String,
            items: Vec<Priced>,
            purchase: Option<Purchase>,
        }
        let Some(cost) = report.get("cost").filter(|cost| !cost.is_null()) else { return Ok(None) };
        let read: Result<Cost, _> = serde_json::from_value(cost.clone());
        let Cost { currency, items, purchase } = read.map_err(|why| format!("its cost: {why}"))?;
        let (name, month) = (name.to_owned(), number(report, "/cost/month"));
        Ok(Some(Bought { name, purchase, items, month, currency }))
    }

    /// Returns the sum of all purchases.
    fn once(&self) -> f64 {
        let paid = self.items.iter().filter(|item| !item.hourly);
        paid.map(|item| item.count * item.each).sum()
    }
}

/// Returns the tables of what is bought; no blocks if nothing has a price.
pub(super) fn part(all: &[Bought]) -> Part {
    let priced: Vec<&Bought> = all.iter().filter(|of| !of.items.is_empty()).collect();
    if priced.is_empty() {
        return Part::default();
    }
    let mut blocks = Vec::new();
    if priced.iter().any(|of| of.purchase.is_some()) {
        blocks.push(sizes(&priced));
        blocks.push(Block::Paragraph(
            "Power is that of the nodes, by `cluster.node.power`: a storage's power is not in a scenario. What is rented has no price that \
             is paid once. Usable capacity is what the scenario says a storage \
             holds; where it says none, the data sets that jobs read from it are named. Rack units are those of the nodes, and of the \
             storages whose prices say them."
                .to_owned(),
        ));
    }
    blocks.push(bill(&priced));
    Part::new("What it costs", blocks)
}

fn sizes(all: &[&Bought]) -> Block {
    let columns = vec![
        Column::text("option"),
        Column::text("usable capacity"),
        Column::number("rack units"),
        Column::number("power at most"),
        Column::number("price, paid once"),
        Column::number("cost of a month"),
    ];
    let row = |of: &&Bought| {
        let purchase = of.purchase.as_ref();
        vec![
            Cell::from(of.name.as_str()),
            capacity(purchase.map_or(&[], |all| &all.storages)),
            Cell::number(purchase.map(rack_units), count),
            Cell::number(purchase.and_then(|all| all.power), |watts| prefixed(watts, "W")),
            Cell::number(Some(of.once()), |amount| money(amount, &of.currency)),
            Cell::number(of.month, |amount| money(amount, &of.currency)),
        ]
    };
    let rows = all.iter().map(row).collect();
    let caption = "What is bought, in the columns of MLPerf Storage".to_owned();
    Block::Table(Table { caption, columns, rows })
}

/// Returns the rack units of nodes and storages.
fn rack_units(of: &Purchase) -> f64 {
    of.rack_units + of.storages.iter().filter_map(|storage| storage.rack_units).sum::<f64>()
}

/// Returns a cell with the usable capacity of each storage; rows are sorted by the sum.
fn capacity(storages: &[BoughtStorage]) -> Cell {
    if storages.is_empty() {
        return Cell::from("no storage has a price");
    }
    let one = |of: &BoughtStorage| match of.capacity {
        Some(size) => format!("`{}`: {}", of.name, bytes(size)),
        None if of.data > 0.0 => format!("`{}`: not said; {} of data", of.name, bytes(of.data)),
        None => format!("`{}`: not said", of.name),
    };
    let value = storages.iter().map(|of| of.capacity.unwrap_or(of.data)).sum();
    let text = storages.iter().map(one).collect::<Vec<_>>().join("; ");
    Cell { text, value: Some(value) }
}

fn bill(all: &[&Bought]) -> Block {
    let columns = vec![
        Column::text("option"),
        Column::text("item"),
        Column::number("number"),
        Column::number("price of each"),
        Column::number("cost of an hour"),
    ];
    let items = all.iter().flat_map(|of| of.items.iter().map(move |item| (of, item)));
    let row = |(of, item): (&&Bought, &Priced)| {
        let time = if item.hourly { " /h" } else { "" };
        vec![
            Cell::from(of.name.as_str()),
            Cell::from(item.what.as_str()),
            Cell::number(Some(item.count), count),
            Cell::number(Some(item.each), |each| money(each, &of.currency) + time),
            Cell::number(Some(item.per_hour), |amount| money(amount, &of.currency)),
        ]
    };
    let caption = "What the costs consist of, purchases spread over their lifetime".to_owned();
    let rows = items.map(row).collect();
    Block::Table(Table { caption, columns, rows })
}
