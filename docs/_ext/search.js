// Of what matches a search, guides come first: they answer questions. The numbers are Sphinx' own.
var Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    score + (docname.startsWith("howto/") && docname !== "howto/index" ? 15 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
