//! Passes batches from a loader's queue to the devices that wait for them.

use super::content::Buffer;
use super::state::{Item, State};
use forebay_engine::Time;
use forebay_metrics::{Polling, Segment};

impl State {
    /// Gets a batch for the next step of device `d`, or makes the device wait for one.
    pub(super) fn want_batch(&mut self, now: Time, d: u32) {
        let l = self.training.devices[d as usize].loader;
        self.want_request(now, l);
        let loader = &mut self.loaders[l];
        // Batches promised to sleeping devices are reserved for them.
        let promised = loader.polling.as_ref().map_or(0, Polling::promised);
        if loader.waiters.len() == promised && loader.queue.has_batches(promised as u64 + 1) {
            loader.queue.served_at_once();
            self.take_batch(now, d);
            self.unblock_last(now, l);
            return;
        }
        loader.waiters.push_back(d);
        self.begin_epoch_if_over(now, l);
        let loader = &mut self.loaders[l];
        if !self.training.devices[d as usize].is_busy() {
            loader.queue.begin_wait(now);
        }
        if let Some(polling) = &loader.polling {
            self.training.devices[d as usize].asleep = Some(polling.next_look(now, now));
            self.wake_device(d);
        }
        self.trace_device(now, d, "starving");
    }

    pub(super) fn take_batch(&mut self, now: Time, d: u32) {
        let l = self.training.devices[d as usize].loader;
        let loader = &mut self.loaders[l];
        let device = &mut self.training.devices[d as usize];
        device.samples = loader.queue.batch();
        device.content = loader.contents.take(device.samples);
        let taken = loader.queue.take(now);
        loader.first_batches.take(device.step);
        let fresh = loader.polling.as_mut().map_or(taken, |polling| polling.fresh(taken));
        self.training.steps.add_fresh(fresh);
        self.trace_level(now, l);
        self.replace_request(now, l);
        if !self.loaders[l].waiters.is_empty() {
            self.begin_epoch_if_over(now, l);
        }
        self.compute(now, d);
    }

    /// Passes `item`, which worker `w` has finished, towards the trainer: directly into the last buffer, or, if batches are made
    /// on request, in the order of requests.
    pub(super) fn deliver(&mut self, now: Time, w: u32, item: Item) {
        let l = self.workers[w as usize].loader;
        let loader = &mut self.loaders[l];
        let Some(requests) = &mut loader.requests else {
            return self.enqueue(now, w, item.samples, item.content);
        };
        requests.finish(now, item.sequence);
        loader.contents.hold(item.first, item.content);
        while let Some(requests) = &mut self.loaders[l].requests
            && let Some((first, samples)) = requests.hand_out()
        {
            let content = self.loaders[l].contents.release(first);
            self.enqueue(now, w, samples, content);
        }
    }

    /// Puts samples of worker `w` and their content into its loader's queue, which has room. Serves waiting devices.
    fn enqueue(&mut self, now: Time, w: u32, samples: u64, content: Vec<Buffer>) {
        let l = self.workers[w as usize].loader;
        let loader = &mut self.loaders[l];
        loader.queue.put(now, samples);
        loader.contents.put(samples, content, loader.queue.capacity());
        loader.in_progress -= samples;
        let served = !loader.waiters.is_empty() && loader.queue.has_batch();
        self.trace_level(now, l);
        match &self.loaders[l].polling {
            _ if !served => {}
            None => self.serve(now, l, w),
            Some(_) => self.promise(now, l, w),
        }
    }

    /// Gives batches that worker `w` has completed to the devices that wait for them.
    fn serve(&mut self, now: Time, l: usize, w: u32) {
        while self.loaders[l].queue.has_batch()
            && let Some(d) = self.loaders[l].waiters.pop_front()
        {
            self.end_starving(now, d, w, None);
            self.take_batch(now, d);
        }
        self.unblock_last(now, l);
    }

    /// Ends the stall of device `d`, whose batch worker `w` has completed. `slept` is the time for which the device then slept
    /// until it polled.
    pub(super) fn end_starving(&mut self, now: Time, d: u32, w: u32, slept: Option<Segment>) {
        self.catch_up(now, d);
        let training = &mut self.training;
        let device = &training.devices[d as usize];
        let since = device.since;
        if !device.is_busy() {
            self.loaders[device.loader].queue.end_wait(now);
        }
        let mut segments = std::mem::take(&mut training.segments);
        segments.clear();
        // A device that was still busy at first has waited only since it became idle.
        let slept = slept.map(|of| Segment { start: of.start.max(since), ..of });
        segments.extend(slept);
        let came = slept.map_or(now, |slept| slept.start);
        let workers = &self.workers;
        let timelines = (&self.pages, |w: u32| &workers[w as usize].timeline);
        let first = &mut self.loaders[training.devices[d as usize].loader].first_batches;
        first.blame(timelines, w, since, came, &mut segments);
        first.end_wait(now.since(since));
        segments.iter().for_each(|segment| training.steps.add_stall(*segment));
        let track = training.devices[d as usize].track;
        if let (Some(recorder), Some(track)) = (&mut self.recorder, track) {
            recorder.causes(track, &segments);
        }
        if training.devices.len() > 1 {
            training.devices[d as usize].waits.extend(segments.iter().rev());
        }
        training.segments = segments;
    }

    fn trace_level(&mut self, now: Time, l: usize) {
        let loader = &self.loaders[l];
        if let (Some(recorder), Some(track)) = (&mut self.recorder, loader.level_track) {
            recorder.count(track, now, loader.queue.level() as f64);
        }
    }
}
