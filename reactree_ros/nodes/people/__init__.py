"""People: questions and answers, words, voice, the page."""
