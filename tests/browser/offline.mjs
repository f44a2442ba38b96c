// Loaded into example servers before they start: requests to other hosts are answered here, so that
// tests need no network.

/** A film of half a second, in colours. */
const FILM =
  "GkXfo59ChoEBQveBAULygQRC84EIQoKEd2VibUKHgQRChYECGFOAZwEAAAAAAAH2EU2bdLlNu4tTq4QVSalmU6yBbk27i1OrhBZUrmtTrIGTTbuLU6uEH0O2dVOsgdRNu4xTq4QcU7trU6yCAeTsrgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAVSalmoCrXsYMPQkBEiYRDcYfwTYCGQ2hyb21lV0GGQ2hyb21lFlSua7yuuteBAXPFhxgS8Gv8BbGDgQFV7oEBhoVWX1ZQOOCdsIEguoESU8CBAVWwkFWxgQFVuYECVbqBDVW7gQEfQ7Z1AQAAAAAAAQTngQCg6aG+gQAAABADAJ0BKiAAEgACRwiFhYiZhIgMggJ1uiSAfwBBbG4gLAD+8U2v/XAecB5wH8y3/5gghwfRiweWQ4B1oaampO6BAaWfMAIAnQEqIAASAAcHCIWFiJmEiCYCAAeQ88nA/vBdAKDJoamBAHgA0QEACRCAABgAHlf0DABBDgD+7/3D/0JPBJ4JP3T//iyJ6HgGAHWhmKaW7oEBpZGxAQAcETwAGAAYWC/0AAhwAPuBAKDJoamBAPEA0QEACRBUABgAHlf0DABBDgD+8ut//aWepZ6ln+PL/52CFLv1qHWhmKaW7oEBpZGxAQAcESwAGAAYWC/0AAhwAPuBeBxTu2uNu4uzgQC3hveBAfGB1A==";

globalThis.fetch = async (url) => {
  if (/\.mp4$/.test(String(url))) return new Response(Buffer.from(FILM, "base64"));
  throw new TypeError(`tests have no network: ${url}`);
};
