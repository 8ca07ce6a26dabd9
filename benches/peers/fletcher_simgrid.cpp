// The yardstick (scenarios/yardstick.toml) on SimGrid's S4U interface.
//
// Every loader thread and every trainer is an actor; a fetch is a direct communication over the
// server's link and the job's own. Written for SimGrid 3.32. Settings are key=value:
//   fletcher_simgrid sizes=lognormal.f64 jobs=16 steps=200 --cfg=network/model:CM02 ...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace sg = simgrid::s4u;

struct Settings {
  long jobs = 16, threads = 8, steps = 200, batch = 256, cores = 8, capacity = 2000;
  double decode = 2e-3, compute = 3e-3, server = 2e9, nic = 1.25e9;
  std::string sizes = "lognormal.f64";

  void set(const std::string& key, const std::string& value)
  {
    const std::pair<const char*, long*> counts[] = {{"jobs", &jobs},   {"threads", &threads}, {"steps", &steps},
                                                    {"batch", &batch}, {"cores", &cores},     {"capacity", &capacity}};
    const std::pair<const char*, double*> amounts[] = {
        {"decode", &decode}, {"compute", &compute}, {"server", &server}, {"nic", &nic}};
    for (auto [name, place] : counts)
      if (key == name)
        return void(*place = std::stol(value));
    for (auto [name, place] : amounts)
      if (key == name)
        return void(*place = std::stod(value));
    if (key == "sizes")
      return void(sizes = value);
    std::fprintf(stderr, "unknown setting %s\n", key.c_str());
    std::exit(2);
  }
};

// A job: its node, its queue's level, and who waits for what.
struct Job {
  sg::Host* node;
  sg::SemaphorePtr cores, room, batch;
  long taken = 0, level = 0, waiting_for_room = 0;
  bool waiting_for_batch = false;
  double finished = 0.0;
};

class Bench {
  const Settings& is;
  std::vector<double> sizes;
  sg::Host* server;

  double size(long job, long sample) const { return sizes[(job * 40503 + sample * 25173) % sizes.size()]; }

  void put(Job& job)
  {
    while (job.level == is.capacity) {
      job.waiting_for_room++;
      job.room->acquire();
    }
    job.level++;
    if (job.waiting_for_batch && job.level >= is.batch) {
      job.waiting_for_batch = false;
      job.batch->release();
    }
  }

  void take(Job& job)
  {
    while (job.level < is.batch) {
      job.waiting_for_batch = true;
      job.batch->acquire();
    }
    job.level -= is.batch;
    for (; job.waiting_for_room > 0; job.waiting_for_room--)
      job.room->release();
  }

  void load(long index)
  {
    Job& job = jobs[index];
    while (job.taken < is.steps * is.batch) {
      auto bytes = static_cast<uint64_t>(size(index, job.taken++));
      sg::Comm::sendto(server, job.node, bytes);
      job.cores->acquire();
      sg::this_actor::sleep_for(is.decode);
      job.cores->release();
      put(job);
    }
  }

  void train(Job& job)
  {
    for (long step = 0; step < is.steps; step++) {
      take(job);
      sg::this_actor::sleep_for(is.compute);
    }
    job.finished = sg::Engine::get_clock();
  }

public:
  std::vector<Job> jobs;

  explicit Bench(const Settings& settings) : is(settings), sizes(65536), jobs(settings.jobs)
  {
    std::ifstream file(is.sizes, std::ios::binary);
    if (not file.read(reinterpret_cast<char*>(sizes.data()), sizes.size() * sizeof(double))) {
      std::fprintf(stderr, "cannot read %s: write it with sizes.py\n", is.sizes.c_str());
      std::exit(2);
    }
    auto* zone  = sg::create_full_zone("cluster");
    server      = zone->create_host("server", 1e9);
    auto* trunk = zone->create_link("trunk", is.server)->set_latency(0);
    for (size_t j = 0; j < jobs.size(); j++) {
      Job& job  = jobs[j];
      auto name = std::to_string(j);
      job.node  = zone->create_host("node" + name, 1e9);
      auto* nic = zone->create_link("nic" + name, is.nic)->set_latency(0);
      zone->add_route(server->get_netpoint(), job.node->get_netpoint(), nullptr, nullptr,
                      {sg::LinkInRoute(trunk), sg::LinkInRoute(nic)}, false);
      job.cores = sg::Semaphore::create(is.cores);
      job.room  = sg::Semaphore::create(0);
      job.batch = sg::Semaphore::create(0);
    }
    zone->seal();
    for (long j = 0; j < is.jobs; j++) {
      for (long t = 0; t < is.threads; t++)
        sg::Actor::create("loader", jobs[j].node, [this, j] { load(j); });
      sg::Actor::create("trainer", jobs[j].node, [this, j] { train(jobs[j]); });
    }
  }
};

int main(int argc, char** argv)
{
  sg::Engine engine(&argc, argv); // takes away --cfg and --log
  Settings settings;
  for (int i = 1; i < argc; i++) {
    std::string argument = argv[i];
    auto equals          = argument.find('=');
    settings.set(argument.substr(0, equals), equals == std::string::npos ? "" : argument.substr(equals + 1));
  }
  Bench bench(settings);
  engine.run();
  double makespan = 0, step = 0;
  for (const Job& job : bench.jobs) {
    makespan = std::max(makespan, job.finished);
    step += job.finished / settings.steps / settings.jobs;
  }
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  double cpu = used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  double flows = double(settings.jobs) * settings.steps * settings.batch;
  std::printf("{\"makespan\": %.12g, \"mean_step\": %.12g, \"flows\": %.0f, \"cpu_seconds\": %.3f, \"flows_per_cpu_second\": %.0f}\n",
              makespan, step, flows, cpu, flows / cpu);
}
