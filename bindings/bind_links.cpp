// bind_links: edge seeds of a loader, and their options.
#include "bindings.h"
#include "load/seeds.h"

namespace gz::bindings {

LinkNegatives parse_negatives(const std::optional<std::string>& name) {
  if (!name) return LinkNegatives::kNone;
  return parse_choice<LinkNegatives>(
      "neg_sampling", *name, {{"binary", LinkNegatives::kBinary}, {"triplet", LinkNegatives::kTriplet}}, "None");
}

LinkExclude parse_link_exclude(const std::string& name) {
  return parse_choice<LinkExclude>(
      "exclude", name,
      {{"none", LinkExclude::kNone}, {"self", LinkExclude::kSelf}, {"reverse", LinkExclude::kReverse}});
}

void bind_links(nb::module_& m) {
  m.def(
      "link_source",
      [](const SampleGraph& graph, size_t edge_type, const std::optional<std::pair<Numbers, Numbers>>& ends,
         const std::optional<Numbers>& positions, const std::optional<Numbers>& times, bool own_times,
         const std::optional<std::string>& negatives, double ratio, bool strict, bool by_degree, double exponent,
         const std::string& exclude, std::vector<size_t> reverse_types, bool disjoint,
         const std::optional<std::string>& direction) {
        LinkSourceOptions options{.edge_type = edge_type,
                                  .ends = ends,
                                  .positions = positions,
                                  .times = times.value_or(Numbers{}),
                                  .own_times = own_times,
                                  .link = {.negatives = parse_negatives(negatives),
                                           .ratio = ratio,
                                           .strict = strict,
                                           .by_degree = by_degree,
                                           .exponent = exponent,
                                           .exclude = parse_link_exclude(exclude),
                                           .reverse_types = std::move(reverse_types)},
                                  .disjoint = disjoint,
                                  .direction = parse_direction(direction)};
        return std::const_pointer_cast<SeedSource>(link_source(graph, std::move(options)));
      },
      nb::kw_only(), nb::arg("graph"), nb::arg("edge_type"), nb::arg("ends").none(), nb::arg("positions").none(),
      nb::arg("times").none(), nb::arg("own_times"), nb::arg("negatives").none(), nb::arg("ratio"), nb::arg("strict"),
      nb::arg("by_degree"), nb::arg("exponent"), nb::arg("exclude"), nb::arg("reverse_types"), nb::arg("disjoint"),
      nb::arg("direction").none());
}

}  // namespace gz::bindings
