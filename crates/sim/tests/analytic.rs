//! The shipped station and the shipped link against queueing theory (Kleinrock, Queueing Systems
//! I and II; Harchol-Balter, Performance Modeling and Design of Computer Systems, ch. 14 and 30).
//!
//! Each test simulates independent replications and asks that the closed form lies inside the
//! 99.9 % Student-t interval of the mean and that this interval's half-width is at most 1 %. Seeds
//! are fixed, so a test that passes keeps passing.

use std::collections::VecDeque;

use forebay_engine::fluid::{Capacity, Demand, GroupId, Network, Use};
use forebay_engine::{self as engine, Calendar, Model, Span, Time};
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_scenario::Distribution;
use forebay_sim::Station;
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Customers that arrive as a Poisson process at a server and leave when they are done.
struct System<S> {
    calendar: Calendar<Event>,
    server: S,
    gap: Sampler,
    size: Sampler,
    streams: Streams,
    arrivals: u64,
    limit: u64,
    arrived_at: Vec<Time>,
    responses: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    Departure(u32),
}

/// What differs between a FIFO station and a shared link.
trait Server {
    fn arrive(&mut self, now: Time, work: f64, customer: u32, calendar: &mut Calendar<Event>);
    /// Handles a scheduled departure and schedules the departure of the customer whose service begins.
    fn leave(&mut self, now: Time, calendar: &mut Calendar<Event>);
    fn pending(&mut self) -> Option<Time>;
    fn finished(&mut self, now: Time) -> Option<u32>;
}

/// First come, first served.
struct Fifo {
    station: Station<(u32, Span)>,
}

impl Server for Fifo {
    fn arrive(&mut self, now: Time, work: f64, customer: u32, calendar: &mut Calendar<Event>) {
        let service = Span::from_seconds(work);
        if self.station.arrive(now, (customer, service)) {
            calendar.schedule(now + service, Event::Departure(customer));
        }
    }
    fn leave(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        if let Some((customer, service)) = self.station.leave(now) {
            calendar.schedule(now + service, Event::Departure(customer));
        }
    }
    fn pending(&mut self) -> Option<Time> {
        None
    }
    fn finished(&mut self, _: Time) -> Option<u32> {
        None
    }
}

/// Processor sharing: a link shared evenly among all customers, none served faster than rate 1.
struct Shared {
    network: Network<u32>,
    group: GroupId,
}

impl Server for Shared {
    fn arrive(&mut self, now: Time, work: f64, customer: u32, _: &mut Calendar<Event>) {
        self.network.start(now, self.group, work, customer);
    }
    fn leave(&mut self, _: Time, _: &mut Calendar<Event>) {}
    fn pending(&mut self) -> Option<Time> {
        self.network.next()
    }
    fn finished(&mut self, now: Time) -> Option<u32> {
        self.network.finish(now).map(|flow| flow.token)
    }
}

impl<S: Server> System<S> {
    fn next_arrival(&mut self, now: Time) {
        let mut generator = self.streams.at(Purpose::Arrival, 0, self.arrivals, 0);
        let at = now + Span::from_seconds(self.gap.draw(&mut generator));
        self.calendar.schedule(at, Event::Arrival);
    }

    fn depart(&mut self, now: Time, customer: u32) {
        self.responses.push(now.since(self.arrived_at[customer as usize]).seconds());
    }
}

impl<S: Server> Model for System<S> {
    type Event = Event;

    fn calendar(&mut self) -> &mut Calendar<Event> {
        &mut self.calendar
    }

    fn pending(&mut self) -> Option<Time> {
        self.server.pending()
    }

    fn advance(&mut self, now: Time) {
        while let Some(customer) = self.server.finished(now) {
            self.depart(now, customer);
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrival => {
                let customer = self.arrived_at.len() as u32;
                self.arrived_at.push(now);
                let mut generator = self.streams.at(Purpose::RequestSize, 0, self.arrivals, 0);
                let work = self.size.draw(&mut generator);
                self.server.arrive(now, work, customer, &mut self.calendar);
                self.arrivals += 1;
                if self.arrivals < self.limit {
                    self.next_arrival(now);
                }
            }
            Event::Departure(customer) => {
                self.depart(now, customer);
                self.server.leave(now, &mut self.calendar);
            }
        }
    }
}

fn fifo(servers: u32) -> Fifo {
    Fifo { station: Station::new(servers) }
}

fn shared(servers: u32) -> Shared {
    let mut network = Network::new();
    let link = network.link(Capacity::Fixed(servers as f64));
    let route = [Use { link, per_unit: 1.0 }].into();
    let group = network.group(Demand { route, weight: 1.0, cap: 1.0 });
    Shared { network, group }
}

/// Returns the mean response time and its 99th percentile for each replication.
fn simulate<S: Server>(
    server: impl Fn() -> S + Sync,
    size: &Distribution,
    rate: f64,
    customers: u64,
) -> Vec<(f64, f64)> {
    let replications = 16;
    (0..replications)
        .into_par_iter()
        .map(|replication| {
            let mut system = System {
                calendar: Calendar::new(),
                server: server(),
                gap: Sampler::new(&Distribution::Exponential { mean: 1.0 / rate }),
                size: Sampler::new(size),
                streams: Streams::new(7, replication),
                arrivals: 0,
                limit: customers,
                arrived_at: Vec::new(),
                responses: Vec::new(),
            };
            system.next_arrival(Time::ZERO);
            engine::run(&mut system, Time::NEVER);
            // The system starts empty, so the first twentieth of the responses is left out.
            let mut steady = system.responses.split_off(system.responses.len() / 20);
            let mean = steady.iter().sum::<f64>() / steady.len() as f64;
            steady.sort_by(f64::total_cmp);
            (mean, steady[steady.len() * 99 / 100])
        })
        .collect()
}

fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let t = StudentsT::new(0.0, 1.0, n - 1.0).expect("a distribution").inverse_cdf(0.9995);
    (mean, t * sd / n.sqrt())
}

fn assert_agrees(what: &str, values: &[f64], expected: f64) {
    let (mean, half) = interval(values);
    assert!(half / expected <= 0.01, "{what}: {mean} ± {half} is too wide to say anything");
    assert!((mean - expected).abs() <= half, "{what}: {mean} ± {half}, but {expected} in theory");
}

fn means(results: &[(f64, f64)]) -> Vec<f64> {
    results.iter().map(|r| r.0).collect()
}

fn p99s(results: &[(f64, f64)]) -> Vec<f64> {
    results.iter().map(|r| r.1).collect()
}

/// Returns the probability of waiting in M/M/c (Erlang C) at offered load `a = λ/μ`.
fn erlang_c(servers: u32, a: f64) -> f64 {
    let c = servers as f64;
    let mut b = 1.0;
    for k in 1..=servers {
        b = a * b / (k as f64 + a * b);
    }
    b / (1.0 - a / c * (1.0 - b))
}

const EXPONENTIAL: Distribution = Distribution::Exponential { mean: 1.0 };
const CONSTANT: Distribution = Distribution::Constant(1.0);

/// Returns a lognormal distribution with mean 1 and squared coefficient of variation 1.5.
fn lognormal() -> Distribution {
    let sigma2 = 2.5_f64.ln();
    Distribution::Lognormal { mu: -sigma2 / 2.0, sigma: sigma2.sqrt() }
}

#[test]
fn m_m_1_response_times_match_theory() {
    // System: one server, ρ = 0.6. Expectation: mean response 1/(μ − λ), from the birth-death process.
    let results = simulate(|| fifo(1), &EXPONENTIAL, 0.6, 400_000);
    assert_agrees("M/M/1 mean", &means(&results), 1.0 / (1.0 - 0.6));
    // The response time of M/M/1 is exponential.
    let (p99, half) = interval(&p99s(&results));
    assert!((p99 - 100.0_f64.ln() / 0.4).abs() <= half && half < 0.25, "p99 {p99} ± {half}");
}

#[test]
fn m_m_c_response_times_match_erlang_c() {
    // System: 8 servers, ρ = 0.8. Expectation: 1 + C(8, 6.4)/(8 − 6.4).
    let results = simulate(|| fifo(8), &EXPONENTIAL, 6.4, 400_000);
    assert_agrees("M/M/8", &means(&results), 1.0 + erlang_c(8, 6.4) / (8.0 - 6.4));
}

#[test]
fn m_d_1_and_m_g_1_response_times_match_pollaczek_khinchine() {
    // Expectation: Pollaczek–Khinchine, W = ρ(1 + C²)/(2(1 − ρ)) + 1.
    let formula = |rho: f64, c2: f64| 1.0 + rho * (1.0 + c2) / (2.0 * (1.0 - rho));
    let constant = simulate(|| fifo(1), &CONSTANT, 0.7, 400_000);
    assert_agrees("M/D/1", &means(&constant), formula(0.7, 0.0));
    let varied = simulate(|| fifo(1), &lognormal(), 0.5, 1_000_000);
    assert_agrees("M/G/1", &means(&varied), formula(0.5, 1.5));
}

#[test]
fn m_g_1_ps_response_times_depend_only_on_the_mean_service_time() {
    // System: a link of capacity 1 shared evenly. Expectation: 1/(1 − ρ) whatever the sizes.
    for (name, size) in [("M/D/1-PS", CONSTANT), ("M/M/1-PS", EXPONENTIAL)] {
        assert_agrees(name, &means(&simulate(|| shared(1), &size, 0.6, 400_000)), 2.5);
    }
    let results = simulate(|| shared(1), &lognormal(), 0.6, 800_000);
    assert_agrees("M/G/1-PS", &means(&results), 2.5);
}

#[test]
fn constant_service_distinguishes_fifo_from_processor_sharing() {
    // System: 8 cores, ρ = 0.9, constant service; once as FIFO slots, once shared with at most one core for
    // each customer. Expectation: means 1.45 and 1.88, 99th percentiles 3.4 and 5.7 (computed once by an
    // independent program). The means of M/M/8 would not distinguish the two.
    let slots = simulate(|| fifo(8), &CONSTANT, 7.2, 600_000);
    let cores = simulate(|| shared(8), &CONSTANT, 7.2, 600_000);
    let near = |what, values: &[f64], expected: f64| {
        let (mean, half) = interval(values);
        assert!((mean - expected).abs() <= half + 0.02 * expected, "{what}: {mean} ± {half}");
    };
    near("M/D/8 mean", &means(&slots), 1.45);
    near("M/D/8-PS mean", &means(&cores), 1.88);
    near("M/D/8 p99", &p99s(&slots), 3.4);
    near("M/D/8-PS p99", &p99s(&cores), 5.7);
    // Exponential service: both have the same mean, because both serve at the same total rate.
    let exponential = simulate(|| shared(8), &EXPONENTIAL, 6.4, 400_000);
    assert_agrees("M/M/8-PS", &means(&exponential), 1.0 + erlang_c(8, 6.4) / (8.0 - 6.4));
}

#[test]
fn a_station_serves_customers_in_order_of_arrival() {
    let mut order = VecDeque::new();
    let mut station = Station::new(1);
    for customer in 0..5 {
        station.arrive(Time(customer), customer);
    }
    while let Some(next) = station.leave(Time(10 + order.len() as u64)) {
        order.push_back(next);
    }
    assert_eq!(order, [1, 2, 3, 4]);
}
