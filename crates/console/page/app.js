// The console begins here.
const root = document.documentElement;
const main = document.createElement('main');
const title = document.createElement('h1');
title.textContent = 'Marquetry';
const endpoint = document.createElement('p');
endpoint.textContent = `Agents connect to ${root.dataset.endpoint}`;
main.append(title, endpoint);
document.body.append(main);
