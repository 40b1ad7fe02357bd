// What a search shows first: the page whose title, entry of the index or section is most like the words searched for.
// Sphinx itself asks whether a title contains one of the words, or a whole entry the search. The numbers are its own.

// The words of a text that count, as Sphinx counts them: "Sessions" is "session", and "the" is none.
const wordsOf = (text) => {
  const stemmer = new Stemmer();
  const words = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
  return new Set(words.map((word) => stemmer.stemWord(word)));
};

// How much of two sets of words is in both: 1 if all is, 0 if nothing is.
const likeness = (some, others) => {
  const shared = [...some].filter((word) => others.has(word)).length;
  return shared && shared / (some.size + others.size - shared);
};

let likenessOfPages = null;

// How much each page is like the search, by its name.
const findLikeness = () => {
  const { docnames, titles, alltitles, indexentries } = Search._index;
  const wanted = wordsOf(new URLSearchParams(window.location.search).get("q") || "");
  const found = {};
  const take = (file, value) => {
    found[docnames[file]] = Math.max(found[docnames[file]] || 0, value);
  };
  titles.forEach((title, file) => take(file, likeness(wanted, wordsOf(title))));
  for (const [title, places] of Object.entries(alltitles)) {
    for (const [file] of places) take(file, 0.6 * likeness(wanted, wordsOf(title)));
  }
  for (const [entry, places] of Object.entries(indexentries)) {
    for (const [file, , isMain] of places) take(file, (isMain ? 1 : 0.3) * likeness(wanted, wordsOf(entry)));
  }
  return found;
};

var Scorer = {
  // Guides come before other pages: they answer questions. Pages for those who change the package come last.
  score: ([docname, , , , score]) => {
    likenessOfPages = likenessOfPages || findLikeness();
    const isGuide = docname.startsWith("howto/") && docname !== "howto/index";
    const isForUs = docname.startsWith("architecture/");
    return score + Math.round(100 * (likenessOfPages[docname] || 0)) + (isGuide ? 15 : 0) - (isForUs ? 20 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
