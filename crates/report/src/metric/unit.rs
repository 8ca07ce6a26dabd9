//! Units of metrics.

/// Unit of a metric; it is the same in rows and in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Time.
    Seconds,
    /// Amounts of data.
    Bytes,
    /// Number of samples, in a queue or in training.
    Samples,
    /// Samples per second.
    SamplesPerSecond,
    /// Steps.
    Steps,
    /// Steps per second.
    StepsPerSecond,
    /// Passes over the data set.
    Epochs,
    /// Passes over the data set per second.
    EpochsPerSecond,
    /// A share, from 0 to 1.
    Share,
    /// A number of things; the meaning of the metric names the things.
    Count,
    /// Ratio of a quantity to another quantity of the same unit.
    Ratio,
    /// Energy.
    Joules,
    /// Power.
    Watts,
    /// Money, in the currency of the scenario's prices.
    Money,
    /// No unit: a text, such as a name.
    Text,
}

impl Unit {
    /// Returns the unit in which values are written where a heading names the metric: it says what there is so much of a second.
    #[must_use]
    pub fn below_its_name(self) -> Unit {
        match self {
            Unit::SamplesPerSecond | Unit::StepsPerSecond | Unit::EpochsPerSecond => Unit::Count,
            unit => unit,
        }
    }

    /// Returns the unit as tables write it, such as `samples/s`; `0 to 1` for a share, `number` for a count or a ratio,
    /// `text` for a name.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Bytes => "B",
            Unit::Samples => "samples",
            Unit::SamplesPerSecond => "samples/s",
            Unit::Steps => "steps",
            Unit::StepsPerSecond => "steps/s",
            Unit::Epochs => "epochs",
            Unit::EpochsPerSecond => "epochs/s",
            Unit::Share => "0 to 1",
            Unit::Count | Unit::Ratio => "number",
            Unit::Joules => "J",
            Unit::Watts => "W",
            Unit::Money => "currency",
            Unit::Text => "text",
        }
    }
}
