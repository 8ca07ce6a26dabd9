//! Checks of published results that the form of the file cannot express.

use super::Quantity;
use super::file::{File, FileCluster, Row, Series, Wrong};
use crate::catalogue::{GPUS, INTERCONNECTS, MODELS};
use std::collections::BTreeSet;
use toml::Spanned;

impl File {
    /// Returns the first problem of the file as an error.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        self.cluster.values().try_for_each(FileCluster::check)?;
        let mut names = BTreeSet::new();
        for series in &self.series {
            if !names.insert(series.name.get_ref()) {
                let what = format!("two series are named {:?}; rename one", series.name.get_ref());
                return Err((series.name.span(), what));
            }
            let clusters = self.cluster.keys().map(String::as_str);
            known(&series.cluster, "cluster of this file", clusters)?;
            series.check(&self.cluster[series.cluster.get_ref()])?;
        }
        Ok(())
    }
}

impl FileCluster {
    fn check(&self) -> Result<(), Wrong> {
        known(&self.gpu, "GPU of the catalogue", GPUS.iter().map(|gpu| gpu.name))?;
        let links = || INTERCONNECTS.iter().map(|link| link.name);
        known(&self.inside, "interconnect of the catalogue", links())?;
        for link in [&self.network, &self.between].into_iter().flatten() {
            known(link, "interconnect of the catalogue", links())?;
        }
        match (&self.switch, &self.between) {
            (Some(switch), None) => {
                let what = "the links between switches are missing; write `between`";
                return Err((switch.span(), what.to_owned()));
            }
            (None, Some(between)) => {
                let what = "the number of GPUs below each switch is missing; write `switch`";
                return Err((between.span(), what.to_owned()));
            }
            (Some(switch), Some(_)) => positive(switch, 1024)?,
            (None, None) => {}
        }
        positive(&self.gpus_per_node, 1024)?;
        self.nics.as_ref().map_or(Ok(()), |nics| positive(nics, 1024))
    }
}

impl Series {
    fn check(&self, cluster: &FileCluster) -> Result<(), Wrong> {
        known(&self.model, "model of the catalogue", MODELS)?;
        positive(&self.batch, 1_000_000)?;
        for (text, key) in
            [(&self.name, "name"), (&self.transport, "transport"), (&self.source, "source")]
        {
            if text.get_ref().trim().is_empty() {
                return Err((text.span(), format!("`{key}` is empty; write one")));
            }
        }
        self.check_quantity()?;
        if self.results.get_ref().is_empty() {
            let what = "the row has no results; write `{ gpus = 8, measured = 1234.5 }`".to_owned();
            return Err((self.results.span(), what));
        }
        let mut before = BTreeSet::new();
        for row in self.results.get_ref() {
            self.check_row(row.get_ref(), cluster).map_err(|what| (row.span(), what))?;
            if !before.insert(row.get_ref().gpus) {
                let what = format!("two results are of {} GPUs; remove one", row.get_ref().gpus);
                return Err((row.span(), what));
            }
        }
        Ok(())
    }

    /// Checks the unit, and that `baseline` and `samples` are given exactly for the quantities that need them.
    fn check_quantity(&self) -> Result<(), Wrong> {
        let quantity = *self.quantity.get_ref();
        if self.unit.get_ref() != quantity.unit() {
            let what = format!("the unit of this quantity is \"{}\"; write that", quantity.unit());
            return Err((self.unit.span(), what));
        }
        let relative = matches!(quantity, Quantity::Efficiency | Quantity::StepGrowth);
        let epoch = quantity == Quantity::EpochTime;
        for (key, needed, there) in [
            ("baseline", relative, self.baseline.is_some()),
            ("samples", epoch, self.samples.is_some()),
        ] {
            match (needed, there) {
                (true, false) => {
                    return Err((self.quantity.span(), format!("the row needs `{key}`; add it")));
                }
                (false, true) => {
                    return Err((
                        self.quantity.span(),
                        format!("the row has no use for `{key}`; remove it"),
                    ));
                }
                _ => {}
            }
        }
        self.baseline.as_ref().map_or(Ok(()), |baseline| positive(baseline, 10_000_000))?;
        self.samples.as_ref().map_or(Ok(()), |samples| positive(samples, 1 << 50))
    }

    fn check_row(&self, row: &Row, cluster: &FileCluster) -> Result<(), String> {
        if !(1..=10_000_000).contains(&row.gpus) {
            return Err("write `gpus` as a number from 1 to 10000000".to_owned());
        }
        if !(row.measured > 0.0 && row.measured <= 1e12) {
            return Err("write `measured` as a number above 0, up to 1e12".to_owned());
        }
        let quantity = *self.quantity.get_ref();
        if quantity == Quantity::Efficiency && row.measured > 2.0 {
            return Err("write an efficiency as a share: 0.9".to_owned());
        }
        if row.fit && row.gpus == 1 && quantity == Quantity::Throughput {
            return Err("the throughput of one GPU is an input; remove `fit`".to_owned());
        }
        if row.gpus > *cluster.gpus_per_node.get_ref() && cluster.network.is_none() {
            let (per_node, name) = (cluster.gpus_per_node.get_ref(), self.cluster.get_ref());
            let what =
                format!("{} GPUs are more than one node of {name:?} has, {per_node}", row.gpus);
            return Err(format!("{what}; give the cluster a `network`"));
        }
        Ok(())
    }
}

/// Returns an error if `name` is not among the known names `all`.
fn known<'a>(
    name: &Spanned<String>,
    what: &str,
    all: impl IntoIterator<Item = &'a str>,
) -> Result<(), Wrong> {
    let all: Vec<&str> = all.into_iter().collect();
    let wanted = name.get_ref().as_str();
    if all.contains(&wanted) {
        return Ok(());
    }
    let near = all.iter().min_by_key(|one| strsim::damerau_levenshtein(one, wanted));
    let near = near.filter(|one| strsim::damerau_levenshtein(one, wanted) <= 3);
    let remedy = match near {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("write one of {}", all.join(", ")),
    };
    Err((name.span(), format!("{wanted:?} is no {what}; {remedy}")))
}

/// Returns an error if `number` is not from 1 to `most`.
fn positive<T: Copy + PartialOrd + From<u32> + std::fmt::Display>(
    number: &Spanned<T>,
    most: T,
) -> Result<(), Wrong> {
    if (T::from(1)..=most).contains(number.get_ref()) {
        return Ok(());
    }
    Err((number.span(), format!("write a number from 1 to {most}")))
}
